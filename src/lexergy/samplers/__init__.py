"""Pairs of init and step that turn proposals and energies into samples."""
