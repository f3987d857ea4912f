"""Writes the tables and the reference pages of ``docs/`` that repeat what the code says.

``python -m harness.docs`` does it. A page holds a pair of marker lines, ``generated: NAME`` and
``end generated`` as HTML comments; what stands between them is replaced. ``--check`` writes
nothing and ends with 1 if a page is stale, which is what ``tests/meta`` asks.
"""

from harness.docs.pages import TABLES, UnknownTableError, main, regenerated, stale_pages

__all__ = ["TABLES", "UnknownTableError", "main", "regenerated", "stale_pages"]
