"""What the papers measure, one question a file."""
