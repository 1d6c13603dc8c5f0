"""Tokens to one number per text; lower is likelier."""
