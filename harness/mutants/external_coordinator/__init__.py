"""Mutants of the family ``external coordinator``: one class in one file."""
