"""What the command line of ``wavecheck record`` asks for, and what does not go together."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import click

from harness.capture.file import CaptureFileError, read_file
from harness.cli.engine_cmd import check_addresses
from harness.cli.output import check_folder, usage_error
from mock_engines.cluster import JoinAddresses

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_EVERYWHERE = ("tcp://0.0.0.0:", "tcp://*:")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def duration(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """Return seconds. Raises ``click.BadParameter``."""
    if text is None:
        return None
    found = _DURATION.fullmatch(text)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if seconds <= 0:
        msg = f"{text!r} is no duration; expected such as 10s, 500ms, 2m or 1h"
        raise click.BadParameter(msg)
    return seconds


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for."""

    addresses: JoinAddresses
    engines: int | None
    start_rank: int
    behaviour: Path | None
    release: str | None
    proxy: bool
    listen: str | None
    seconds: float | None
    redact: bool
    verbose: bool

    @property
    def ranks(self) -> range:
        """Global ranks of the engines, as far as they are said."""
        return range(self.start_rank, self.start_rank + (self.engines or 0))


def check_use(wish: Wish, source: Path | None) -> None:
    """Refuse what does not go together. Raises ``CommandError``."""
    given = wish.addresses
    if source is not None:
        if wish.proxy or given != JoinAddresses() or wish.redact:
            msg = "--from records nothing: it goes with -o, --profile and --json only"
            raise usage_error(msg)
        return
    check_addresses(given)
    if given.handshake is None and (given.input is None or given.output is None):
        msg = "--handshake is missing, or --input and --output"
        raise usage_error(msg, help_text="wavecheck record --help shows both")
    if (given.coordinator_input is None) != (given.coordinator_output is None):
        msg = "--coordinator-input and --coordinator-output go together"
        raise usage_error(msg)
    needs_number = not wish.proxy or given.handshake is None
    if needs_number and wish.engines is None:
        msg = "--engines is missing"
        raise usage_error(msg, help_text="--engines N says how many engines there are")
    if wish.proxy and wish.behaviour is not None:
        msg = "--behaviour does not go with --proxy: those engines are not ours"
        raise usage_error(msg)
    if not wish.proxy and wish.listen is not None:
        msg = "--listen goes with --proxy only"
        raise usage_error(msg)
    if wish.listen is not None and wish.listen.startswith(_EVERYWHERE):
        msg = "--listen names no host"
        raise usage_error(
            msg, help_text="engines are told this address, so it must be one to connect to"
        )
    for name in ("handshake", "input", "output"):
        if wish.listen is not None and getattr(given, name) == wish.listen:
            msg = f"--listen is the address of --{name}: each needs its own"
            raise usage_error(msg)


def check_new(folder: Path) -> None:
    """Refuse a folder with something in it. Raises ``CommandError``."""
    check_folder(folder, "-o")
    if folder.is_dir() and any(folder.iterdir()):
        msg = f"-o: {folder} is not empty"
        raise usage_error(msg, help_text="a recording is never written over; name another folder")


def check_capture(source: Path) -> None:
    """Refuse what is no capture before a folder is made."""
    try:
        found = read_file(source)
    except CaptureFileError as error:
        raise usage_error(str(error)) from error
    if not any(story.frames for story in found.stories):
        msg = f"--from: there is no message in {source}"
        raise usage_error(msg)
