"""Options of the plugin: those of ``wavecheck run``, with a prefix. Imports nothing of ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

PREFIX = "wavecheck"


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: of the option of ``wavecheck run``, without dashes.
        metavar: ``""``: it takes no value.
        repeated: it may be given several times.
    """

    name: str
    help: str
    metavar: str = ""
    repeated: bool = False

    @property
    def dest(self) -> str:
        """Its name among pytest's options."""
        return f"{PREFIX}_{self.name.replace('-', '_')}"


OPTIONS = (
    Option("target", "What is judged: sim, zmq, vllm-rs, vllm-py or adapter. Default: sim.", "T"),
    Option("frontend", "The real frontend: a release or a binary.", "V|PATH"),
    Option("frontend-arg", "An argument for the frontend's process.", "A", repeated=True),
    Option("frontend-env", "A variable for it.", "NAME=VALUE", repeated=True),
    Option("as-release", "The release that a binary is judged as.", "V"),
    Option("attach", "Drive the frontend at this address.", "ADDRESS"),
    Option("adapter", "The command of an adapter.", "CMD"),
    Option("profile", "The release whose promises are judged, or all.", "V|all"),
    Option("schedules", "Orders of events tried for each scenario.", "N"),
    Option("strategy", "Who picks the orders.", "S"),
    Option("stalls", "What --wavecheck-strategy stall leaves out at once.", "N"),
    Option("depth", "Constraints, for --wavecheck-strategy pct.", "N"),
    Option("budget", "Time after which no further schedule is tried.", "TIME"),
    Option("seed", "Seed of the strategy.", "N"),
    Option("mutant", "Judge a reference client that has this known bug.", "ID"),
    Option("quick", "Only the scenarios of `wavecheck run --quick`."),
    Option("shard", "Only part I of N.", "I/N"),
    Option("repeat", "Play each scenario N times.", "N"),
    Option("timeout", "Safety net of one scenario, in seconds.", "S"),
    Option("allow-known", "Known violations are xfailed; known ones that are missing fail."),
    Option("strict", "What could not be judged fails, and violated `should` rules."),
    Option("baseline", "Fail on what this committed file does not say.", "FILE"),
    Option("today", "Count the expiry of waivers from this day.", "DAY"),
    Option("no-shrink", "Show a failing order of events as it was found."),
    Option("json", "Write the results as `wavecheck run --json` does.", "FILE"),
    Option("out", "Where failure files go. Default: wavecheck-out.", "DIR"),
)
"""``wavecheck run --help`` says more of each."""

_FLAG = re.compile(rf"(?<![\w-])--(?={'|'.join(option.name for option in OPTIONS)})")


def add_options(parser: pytest.Parser) -> None:
    """Declare them."""
    group = parser.getgroup(PREFIX, "wavecheck scenarios (see also `wavecheck run --help`)")
    for option in OPTIONS:
        more: dict[str, Any] = {"action": "store_true"}
        if option.metavar:
            action = "append" if option.repeated else "store"
            more = {"action": action, "metavar": option.metavar}
        text = option.help.replace("%", "%%")
        group.addoption(f"--{PREFIX}-{option.name}", dest=option.dest, help=text, **more)


def words_of(config: pytest.Config) -> list[str]:
    """What was given, as words for ``wavecheck run``."""
    words: list[str] = []
    for option in OPTIONS:
        value = config.getoption(option.dest, None)
        if not option.metavar:
            words += [f"--{option.name}"] if value else []
        else:
            values = value or [] if option.repeated else [value] if value is not None else []
            words += [f"--{option.name}={one}" for one in values]
    return words


def as_ours(text: str) -> str:
    """A message of ``wavecheck run`` with the names that its options have here."""
    return _FLAG.sub(f"--{PREFIX}-", text)
