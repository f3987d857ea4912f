"""Addresses of sockets on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from client.protocol.ids import RANKS_MAX
from harness.numerals import number_of
from harness.shortened import shortened

Command = TypeVar("Command", bound=Callable[..., Any])
FORMS = "HOST:PORT, tcp://HOST:PORT or ipc:///PATH"
_TCP = re.compile(r"(?P<host>[^\s:/\[\]]+):(?P<port>[0-9]+)")
_PORT_MAX = 65_535
_SHOWN = 200
"""Characters of a wrong address that are shown."""
_JOINING = (
    ("--handshake", "Where the frontend answers HELLO."),
    ("--input", "Where a bootstrapped frontend sends requests."),
    ("--output", "Where a bootstrapped frontend takes outputs."),
    ("--coordinator-input", "Where the coordinator publishes."),
    ("--coordinator-output", "Where the coordinator takes wave notices."),
)


def full_address(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """Return an address with its scheme; ``HOST:PORT`` stands for ``tcp://HOST:PORT``.

    Raises:
        click.BadParameter: it is no address; the message says what one looks like.
    """
    if text is None:
        return None
    scheme, mark, rest = text.partition("://")
    if not mark:
        scheme, rest = "tcp", text
    if scheme == "ipc" and rest and "\0" not in rest:
        return text
    found = _TCP.fullmatch(rest) if scheme == "tcp" and rest.isprintable() else None
    if found is None:
        msg = f"{shortened(text, _SHOWN)!r} is no address; expected {FORMS}"
        raise click.BadParameter(msg)
    if not number_of(found["port"], _PORT_MAX):
        msg = f"{shortened(text, _SHOWN)!r}: a port is a number from 1 to {_PORT_MAX}"
        raise click.BadParameter(msg)
    return f"tcp://{rest}"


def joining_options(command: Command) -> Command:
    """Add the addresses at which engines join a frontend."""
    for name, help_text in reversed(_JOINING):
        command = address_option(name, help_text)(command)
    return command


def start_rank_option(command: Command) -> Command:
    """Add the global rank of the first engine."""
    return click.option(
        "--start-rank",
        metavar="S",
        type=click.IntRange(0, RANKS_MAX - 1),
        default=0,
        show_default=True,
        help="Global rank of the first.",
    )(command)


def address_option(name: str, help_text: str) -> Callable[[Command], Command]:
    """Make an option that takes an address."""
    return click.option(name, metavar="ADDR", callback=full_address, help=help_text)
