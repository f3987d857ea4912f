"""Mutants of the family ``codec``: one class in one file."""
