"""Cuts texts for people: what quotes a hostile value is not as long as that value."""

from __future__ import annotations

MESSAGE_CHARS_MAX = 2_000
"""Longest message of an error about a file or a line that somebody else wrote."""
PART_CHARS_MAX = 1_000
"""Longest part of a message about a scenario file: its title, what was expected, what was seen."""


def shortened(text: str, most: int = MESSAGE_CHARS_MAX) -> str:
    """Return a text of at most ``most`` characters and a word on how much is missing.

    The beginning and the end stay: the one names the place, the other says what to do.
    """
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}… ({len(text) - 2 * half:,} characters) …{text[-half:]}"
