"""The one loop, its schedules and checkpoints, and the jobs that use it."""
