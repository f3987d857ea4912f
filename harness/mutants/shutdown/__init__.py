"""Mutants of the family ``shutdown``: one class in one file."""
