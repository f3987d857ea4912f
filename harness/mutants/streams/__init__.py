"""Mutants of the family ``streams and aborts``: one class in one file."""
