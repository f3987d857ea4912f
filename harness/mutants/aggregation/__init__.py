"""Mutants of the family ``aggregation``: one class in one file."""
