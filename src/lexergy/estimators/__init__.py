"""Numbers with bounds, from samples."""
