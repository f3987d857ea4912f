"""Mutants of the family ``engine wave rules``: one class in one file."""
