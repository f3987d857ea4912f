"""A transcript of the lines, for whoever writes an adapter: ``WAVECHECK_ADAPTER_TRANSCRIPT=FILE``.

``> `` begins what the harness wrote, ``< `` what the adapter wrote. Processes append to one file.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.targets.base import TargetError

VARIABLE = "WAVECHECK_ADAPTER_TRANSCRIPT"


class Transcript:
    """Appends lines to the file that the environment names, if it names one."""

    def __init__(self) -> None:
        name = os.environ.get(VARIABLE)
        self._file = -1
        if name:
            try:
                self._file = os.open(Path(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            except OSError as error:
                msg = f"{VARIABLE}: cannot write {name}: {error.strerror}"
                raise TargetError(msg) from error

    def wrote(self, line: bytes) -> None:
        """Note a command."""
        self._note(b"> " + line)

    def read(self, line: bytes) -> None:
        """Note a line of the adapter."""
        self._note(b"< " + line + b"\n")

    def _note(self, text: bytes) -> None:
        if self._file >= 0:
            os.write(self._file, text)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
