"""Mutants of the family ``health``: one class in one file."""
