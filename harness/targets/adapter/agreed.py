"""What both ends of the line protocol take for granted. Light: an adapter of ours imports it."""

from __future__ import annotations

VERSIONS = (1,)
"""Protocol versions that this harness speaks, best last."""
LINE_BYTES_MAX = 16 << 20
"""Longest line, either way; a longer one is a fault."""
