"""Mutants of the family ``routing``: one class in one file."""
