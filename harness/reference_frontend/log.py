"""The log: lines as the real frontend writes them, so that one table reads both.

A line is ``(Name pid=N) LEVEL MM-DD HH:MM:SS [place] message key=value …``, on standard output
up to 0.26 and on standard error since.

Source: ``harness/targets/vllm_rs/log_patterns.py``; the streams were measured.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

from packaging.version import Version

from client.protocol.profiles import Profile

NAME = "ReferenceFrontend"
_LEVELS = {"trace": 0, "debug": 1, "info": 2, "warn": 3, "error": 4, "off": 5}
_SHOWN = {"debug": "DEBUG", "info": "INFO", "warn": "WARNING", "error": "ERROR"}
_STDERR_SINCE = Version("0.27.0")
COORDINATOR = "vllm_engine_core_client::coordinator"
"""Target of the lines about waves, as filters name it."""
CLIENT = "vllm_engine_core_client::client"
SERVER = "vllm_server"


class LogFilter:
    """``RUST_LOG``: ``level`` or ``target=level``, separated by commas; the longest target wins."""

    def __init__(self, directives: str) -> None:
        self._default = _LEVELS["error"]
        self._targets: dict[str, int] = {}
        self._lowest: dict[str, int] = {}
        for directive in directives.split(","):
            target, equals, level = directive.strip().rpartition("=")
            known = _LEVELS.get(level.lower())
            if known is None:
                continue  # as upstream: what is no directive is passed over
            if equals:
                self._targets[target] = known
            else:
                self._default = known

    def lets(self, target: str, level: str) -> bool:
        """Whether a line of this level and target is written."""
        lowest = self._lowest.get(target)
        if lowest is None:
            lowest = self._lowest[target] = self._lowest_of(target)
        return _LEVELS[level] >= lowest

    def _lowest_of(self, target: str) -> int:
        fits = [each for each in self._targets if target == each or target.startswith(f"{each}::")]
        return self._targets[max(fits, key=len)] if fits else self._default


class Log:
    """Writes lines, each at once and whole."""

    def __init__(self, profile: Profile, directives: str, stream: TextIO | None = None) -> None:
        self.lets = LogFilter(directives).lets
        newer = profile.version >= _STDERR_SINCE
        self._stream = stream or (sys.stderr if newer else sys.stdout)
        self._pid = os.getpid()

    def __call__(self, level: str, message: str, *, target: str = SERVER, **fields: object) -> None:
        """Write one line. Strings among the fields are quoted, other values are not."""
        if not self.lets(target, level):
            return
        shown = "".join(f" {name}={_shown(value)}" for name, value in fields.items())
        moment = time.strftime("%m-%d %H:%M:%S")
        place = target.rpartition("::")[2]
        self._stream.write(
            f"({NAME} pid={self._pid}) {_SHOWN[level]} {moment} [{place}] {message}{shown}\n"
        )
        self._stream.flush()


class Bare(str):
    """Text that is shown without quotes."""

    __slots__ = ()


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and not isinstance(value, Bare):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'.replace("\n", "\\n")
    return str(value).replace("\n", " ")
