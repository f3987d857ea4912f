"""Which commands there are, and where. Only the one that is asked for is loaded."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping, Sequence

import click

WHERE = {
    "run": "run_cmd:run_command",
    "matrix": "matrix_cmd:matrix_command",
    "mutants": "mutants_cmd:mutants_command",
    "bisect": "bisect_cmd:bisect_command",
    "baseline": "baseline_cmd:baseline_group",
    "explore": "explore_cmd:explore_command",
    "soak": "soak_cmd:soak_command",
    "replay": "replay_cmd:replay_command",
    "report": "report_cmd:report_command",
    "shrink": "shrink_cmd:shrink_command",
    "new": "new_cmd:new_command",
    "validate": "validate_cmd:validate_command",
    "migrate": "migrate_cmd:migrate_command",
    "explain": "explain_cmd:explain_command",
    "watch": "watch_cmd:watch_command",
    "list": "list_cmd:list_command",
    "frontend": "frontend_cmd:frontend",
    "engine": "engine_cmd:engine",
    "decode": "decode_cmd:decode_command",
    "capture": "capture_cmd:capture_command",
    "diff": "diff_cmd:diff_command",
    "record": "record_cmd:record_command",
    "doctor": "doctor_cmd:doctor_command",
    "completion": "completion_cmd:completion_command",
    "schema": "schema_cmd:schema_command",
}
"""Module in this package, and the command in it, by name."""


class Commands(MutableMapping[str, click.Command]):
    """The commands by name; a module is imported when its command is looked up."""

    def __init__(self) -> None:
        self._found: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        """Load a command. Raises ``KeyError``: there is none of that name."""
        if name not in self._found:
            module, _, attribute = WHERE[name].partition(":")
            loaded = importlib.import_module(f"harness.cli.{module}")
            self._found[name] = getattr(loaded, attribute)
        return self._found[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        """Put another one in its place."""
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        """Take back what was put there."""
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter({**WHERE, **self._found})

    def __len__(self) -> int:
        """How many there are."""
        return len({**WHERE, **self._found})

    def ahead(self, args: Sequence[str]) -> None:
        """Load what a command line is about to use: one command, or for help all of them."""
        first = args[0] if args else ""
        names = [first] if first in WHERE else [] if first == "--version" else WHERE
        for name in names:
            self[name]
