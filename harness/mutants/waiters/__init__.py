"""Mutants of the family ``waiters``: one class in one file."""
