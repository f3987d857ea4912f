"""Mutants of the family ``registry``: one class in one file."""
