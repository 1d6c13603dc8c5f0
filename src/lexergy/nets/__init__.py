"""Networks with no role yet."""
