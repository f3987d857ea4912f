"""Ports that are taken before the engines are waited for, and listened on behind that.

A port that is bound and not listened on refuses who connects, as the real frontend does until it
is ready; and nobody else can have it meanwhile.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress


class PortTaken(OSError):  # noqa: N818 - a kind of OSError, which says Error enough
    """A port cannot be had; the message names it, why, and the option that chooses another."""


class Port:
    """One TCP port that is ours, bound and silent."""

    def __init__(self, host: str, port: int, option: str) -> None:
        """Bind it.

        Args:
            host: name or address.
            port: 0 = any.
            option: of the command line, for the message.

        Raises:
            PortTaken: it cannot be had.
        """
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self.socket = socket.socket(family, kind, protocol)
            try:
                # One whose last user is gone for good may be had again, as elsewhere.
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                self.socket.bind(address)
            except BaseException:
                self.socket.close()
                raise
        except OSError as error:
            msg = f"{host}:{port} cannot be had: {_reason(error)}; {option} chooses another"
            raise PortTaken(msg) from error

    def release(self) -> None:
        """Give it to whoever binds it next. Idempotent."""
        with suppress(OSError):
            self.socket.close()


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or not error.errno:
        return str(error)
    return f"{os.strerror(error.errno)} (os error {error.errno})"
