"""The docs site: Markdown and docstrings, built without the network."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

project = "Lexergy"
author = "The Lexergy authors"
extensions = ["myst_parser", "rooms"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "rooms/_*"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "Lexergy"
html_show_copyright = False
# Docstrings hold equations and layouts in their indented blocks: none of them is a program.
highlight_language = "none"
# An excerpt from a program need not be a whole one.
suppress_warnings = ["misc.highlighting_failure"]
