"""Markdown that is written by code: tables, code spans, prose of docstrings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([*\[\]]|(?<!\w)_|_(?!\w))")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Render a Markdown table; pipes inside cells are escaped."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") or "–" for cell in cells) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *(line(row) for row in rows)]) + "\n"


def code(names: Iterable[str]) -> str:
    """Render names as code, joined by commas."""
    return ", ".join(f"`{name}`" for name in names)


def prose(text: str) -> str:
    r"""Render plain text with code in single or double backticks: nothing else is markup.

    >>> prose("a ``*`` and snake_case, see [there]")
    'a `*` and snake_case, see \\[there\\]'
    """
    parts = _CODE.split(" ".join(text.replace("``", "`").split()))
    # Not every Markdown knows a backslash before these two.
    parts = [
        part if part.startswith("`") else part.replace("<", "&lt;").replace(">", "&gt;")
        for part in parts
    ]
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)


def list_of(kind: str) -> str:
    """Say a list of something: ``list of whole numbers``.

    >>> list_of("text"), list_of("number"), list_of("mapping of text")
    ('list of text', 'list of numbers', 'list of mappings of text')
    """
    for one in ("number", "mapping", "list"):
        kind = re.sub(rf"^((?:whole )?{one})\b", r"\1s", kind)
    return f"list of {kind}"
