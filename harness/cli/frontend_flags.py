"""Flags on how a frontend is had and started, shared by ``run``, ``matrix`` and ``bisect``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from client.protocol.profiles import RELEASES
from harness.cli.output import unknown_word, usage_error
from harness.targets.request import is_reference, names_a_path
from harness.targets.vllm_rs.releases import is_newer

Command = TypeVar("Command", bound=Callable[..., Any])
Environment = tuple[tuple[str, str], ...]


def _pairs(
    _context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> Environment:
    pairs: dict[str, str] = {}
    for value in values:
        name, sign, text = value.partition("=")
        if not sign or not name or "\0" in value:
            msg = f"'{value}' is not NAME=VALUE"
            raise click.BadParameter(msg, param=parameter)
        pairs[name] = text
    return tuple(pairs.items())


def start_options(command: Command) -> Command:
    """``--frontend-arg``, ``--frontend-env`` and ``--as-release``."""
    as_release = click.option(
        "--as-release",
        metavar="V",
        help="The release whose protocol and promises apply to a binary that does not say "
        "its own (before 0.29), or that is judged as another; a newer one than all known "
        "releases stands for the newest.",
    )
    return process_options(as_release(command))


def process_options(command: Command) -> Command:
    """``--frontend-arg`` and ``--frontend-env``."""
    for option in (
        click.option(
            "--frontend-env",
            metavar="NAME=VALUE",
            multiple=True,
            callback=_pairs,
            help="Set a variable in the environment of the frontend's process; may be repeated.",
        ),
        click.option(
            "--frontend-arg",
            metavar="A",
            multiple=True,
            help="Give the frontend's process this argument too, as it is; may be repeated. "
            "Write --frontend-arg=--flag for one that begins with a dash.",
        ),
    ):
        command = option(command)
    return command


def check_as_release(as_release: str | None, frontends: Sequence[str], *, attached: bool) -> None:
    """Refuse what is no release, and one for frontends that have their own.

    One that is newer than all known ones is none of our business: it stands for the newest, and
    the target's note says so.

    Raises:
        CommandError: as above.
    """
    if as_release is None:
        return
    if as_release not in RELEASES and not is_newer(as_release):
        msg = "release"
        raise unknown_word(msg, as_release, RELEASES)
    if not attached and not any(names_a_path(frontend) for frontend in frontends):
        msg = "--as-release is for a frontend that is a file"
        raise usage_error(
            msg,
            expected="--frontend PATH --as-release V",
            help_text="a release speaks its own protocol; `reference:V` names the one to imitate",
        )


def check_mutant(mutant: str, frontends: Sequence[str | None]) -> None:
    """Refuse a mutant for a frontend that is not ours.

    Raises:
        CommandError: as above.
    """
    theirs = next((frontend for frontend in frontends if not is_reference(frontend)), "")
    if theirs == "":
        return
    what = f" {theirs}" if theirs else ""
    msg = f"--mutant {mutant} does not go with the real frontend{what}"
    raise usage_error(
        msg,
        help_text="a mutant is a variant of the reference client: use --target sim, --target zmq, "
        "or the frontend `reference`, which is that client as a server",
    )


def fixed_path(frontend: str | None) -> str | None:
    """A file by its whole path, so that a replay finds it from any folder; else unchanged."""
    if frontend is None or is_reference(frontend) or not names_a_path(frontend):
        return frontend
    return os.path.abspath(frontend)
