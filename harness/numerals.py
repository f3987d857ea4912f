"""Numbers that somebody wrote: on the command line, in an address, in a file of others."""

from __future__ import annotations


def number_of(text: str, most: int) -> int | None:
    """Read a whole number in decimal digits; ``None`` if it is none, or larger than ``most``.

    ``int`` alone refuses some thousand digits with an error about Python's settings, and takes
    signs, underscores, blanks and the digits of every script.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(most)):
        return None
    value = int(digits)
    return value if value <= most else None
