"""Whether a YAML file is a scenario, without parsing it: other people's YAML is left alone."""

from __future__ import annotations

import re
from pathlib import Path

from harness.reading import open_regular

SUFFIXES = (".yaml", ".yml")
KEYS = (b"title", b"promise", b"refs", b"steps")
"""Keys that each scenario has at its top level."""
ENOUGH = 3
"""So many of them make a file a scenario: one may be missing, or misspelt, and is reported."""
BYTES_MAX = 1 << 20
"""As for scenario files; what is larger is none."""
_KEY = re.compile(rb"^(?:\xef\xbb\xbf)?[\"']?(%s)[\"']?[ \t]*:" % b"|".join(KEYS), re.MULTILINE)


def is_scenario(path: Path, *, named: bool) -> bool:
    """Whether a file is taken for a scenario.

    Args:
        path: any file.
        named: the user named it on the command line; then one of the keys is enough.
    """
    if path.suffix not in SUFFIXES or path.name.startswith("."):
        return False
    try:
        if path.stat().st_size > BYTES_MAX and not named:
            return False
        with open_regular(path) as file:
            text = file.read(BYTES_MAX)
    except OSError:
        # pytest itself says what is wrong with a file that was named.
        return False
    return len({*_KEY.findall(text)}) >= (1 if named else ENOUGH)
