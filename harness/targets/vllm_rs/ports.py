"""TCP ports for a process that insists on binding them itself.

Ports below the ephemeral range are used, since the frontend and everybody else draw from that
range while we start. A port is *leased*: a socket in the abstract Unix namespace, whose name
carries the number, is bound for as long as the lease lives. The kernel gives each name once,
forgets it when we die, and leaves no file, so two harness processes never pick the same port.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from harness.targets.base import TargetError

_FIRST = 12_000
_LAST = 32_767
"""Linux's default ephemeral range starts at 32,768."""
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_next_offset: int | None = None


class PortLease:
    """Ports on 127.0.0.1 that no other harness process will use until ``release``."""

    def __init__(self, count: int) -> None:
        """Lease ``count`` ports that were free a moment ago.

        Raises:
            TargetError: there are not that many.
        """
        self._guards: list[socket.socket] = []
        self.ports: tuple[int, ...] = ()
        found = []
        for port in _candidates():
            if (guard := _lease(port)) is None:
                continue
            self._guards.append(guard)
            found.append(port)
            if len(found) == count:
                self.ports = tuple(found)
                return
        self.release()
        msg = f"no {count} free TCP ports on 127.0.0.1 between {_FIRST} and {_last()}"
        raise TargetError(msg)

    def release(self) -> None:
        """Give the ports back. Idempotent."""
        for guard in self._guards:
            guard.close()
        self._guards.clear()


def _last() -> int:
    with suppress(OSError, ValueError):
        lowest = int(_RANGE_FILE.read_text(encoding="ascii").split()[0])
        if lowest > _FIRST + 1000:
            return min(_LAST, lowest - 1)
    return _LAST


def _candidates() -> Iterator[int]:
    """Yield each port once, starting where this process left off.

    A port that was just used may still be waited for by the kernel, hence the rotation;
    processes start at different places, so that they seldom compete.
    """
    global _next_offset
    span = _last() - _FIRST + 1
    if _next_offset is None:
        _next_offset = os.getpid() * 101 % span
    for _ in range(span):
        port = _FIRST + _next_offset
        _next_offset = (_next_offset + 1) % span
        yield port


def _lease(port: int) -> socket.socket | None:
    guard = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        guard.bind(f"\0wavecheck-port-{port}")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # Without SO_REUSEADDR on purpose: a port in TIME_WAIT counts as taken.
            probe.bind(("127.0.0.1", port))
    except OSError as error:
        guard.close()
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        return None
    return guard
