"""Prompt to Draws: things that write text and say how probable it was."""
