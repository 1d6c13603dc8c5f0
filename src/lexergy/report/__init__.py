"""Data to HTML and Markdown, with plots; never back."""
