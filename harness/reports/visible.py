"""Signs that steer whoever shows a text, made visible: one rule for every form of output.

Ids, titles, messages and names of files come from files, frontends and engines. An escape sequence
steers a terminal, a bidirectional control shows a text in another order than it has, a line
separator ends a line for some readers and not for others. Markup is the business of each form.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

_KEPT = "\n\t"
_IN_ITS_PLACE = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """Replace what could steer a terminal or break a line by visible escapes."""
    if text.isprintable():
        return text
    return "".join(_escape(sign) for sign in text)


def visible(text: str) -> str:
    """The same for a text of several lines, whose line feeds and tabs stay."""
    if text.isprintable():
        return text
    return "".join(sign if sign in _KEPT else _escape(sign) for sign in text)


def masked(text: str) -> str:
    """The same with one sign for one sign, where places in the text have a meaning."""
    if text.isprintable():
        return text
    return "".join(sign if sign in _KEPT or sign.isprintable() else _IN_ITS_PLACE for sign in text)


def visible_leaves(document: Any) -> Any:
    """A document of plain objects in which every text, keys as well, is visible."""
    if isinstance(document, str):
        return visible(document)
    if isinstance(document, dict):
        return {visible_leaves(key): visible_leaves(value) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [visible_leaves(value) for value in document]
    return document


def shown_builtins(document: msgspec.Struct) -> Any:
    """A document as plain objects, for a reader who shows its texts."""
    return visible_leaves(msgspec.to_builtins(document))


@functools.lru_cache(maxsize=1024)
def _escape(sign: str) -> str:
    if sign.isprintable():
        return sign
    return sign.encode("unicode_escape", "backslashreplace").decode()
