"""Mutants of the family ``coordinator``: one class in one file."""
