"""Mutants of the family ``fan-out``: one class in one file."""
