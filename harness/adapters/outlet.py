"""Standard output as a place for lines alone.

The descriptor is moved away, so that a ``print`` anywhere in the process cannot break the protocol:
it goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

STDOUT, STDERR = 1, 2


class Outlet:
    """Writes lines; each one is in the pipe when ``say`` returns."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._pipe = os.dup(STDOUT)
        os.dup2(STDERR, STDOUT)

    def say(self, say: str, **keys: Any) -> None:
        """Write one line.

        Raises:
            BrokenPipeError: the harness is gone.
        """
        left = memoryview(json.dumps({"say": say, **keys}, separators=(",", ":")).encode() + b"\n")
        while left:
            left = left[os.write(self._pipe, left) :]

    def reply(self, number: int, **result: Any) -> None:
        """Answer a command."""
        self.say("reply", id=number, result=result)

    def refuse(self, number: int, name: str, message: str) -> None:
        """Answer a command with an error of the client."""
        self.say("reply", id=number, error={"name": name, "message": message})


def plain_fields(event: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an event as JSON carries them; bytes become hex."""
    values = {name: getattr(event, name) for name in names}
    return {name: v.hex() if isinstance(v, bytes) else v for name, v in values.items()}
