"""Mutants of the family ``handshake``: one class in one file."""
