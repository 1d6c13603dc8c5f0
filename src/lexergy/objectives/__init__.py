"""Tensors to a loss and what to log; an objective never holds a network."""
