"""``wavecheck new``: a commented scenario to begin with."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from rich.text import Text

from client.protocol.ids import RANKS_MAX
from client.protocol.profiles import RELEASES
from harness.authoring.order import ENGINES_MAX, Asked, Order, OrderError, asked, filled, inferred
from harness.authoring.places import (
    SchemaPlace,
    check_free,
    path_of_name,
    path_of_out,
    schema_place,
)
from harness.authoring.starting import STARTS, Start
from harness.authoring.writing import mutant_of, text_of, to_see
from harness.cli.output import (
    CommandError,
    Output,
    cannot_write,
    echo,
    json_option,
    unknown_word,
    usage_error,
)
from harness.files import write_own, write_text
from harness.numerals import number_of
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import SCHEMA
from harness.reports.wording import counted
from harness.scenario.loader import parse, scenario_id
from harness.scenario.problems import ScenarioFileError
from harness.scenario.schema import schema_text
from harness.shortened import shortened
from harness.verdict import ExitCode
from harness.version import tool_version

EPILOG = """\b
Examples:
  wavecheck new                                  asks, on a terminal
  wavecheck new --list                           the templates
  wavecheck new waves/my-story --template wave
  wavecheck new my-story --hang 1:add_lora --fail 0:add_lora
  wavecheck new my-story --hang 0:sleep --engines 3 --title 'One engine never sleeps'
"""


@click.command("new", epilog=EPILOG)
@click.argument("name", metavar="[NAME]", required=False)
@click.option(
    "-t", "--template", metavar="T", help="What to begin with; --list shows what there is."
)
@click.option("--list", "list_only", is_flag=True, help="Show the templates and write nothing.")
@click.option("--title", metavar="TEXT", help="One line for lists and reports.")
@click.option("--promise", metavar="TEXT", help="The one sentence that the file tests.")
@click.option(
    "--ref",
    "refs",
    metavar="URL|vllm#N",
    multiple=True,
    help="What it rests on; may be given again.",
)
@click.option("--engines", type=click.IntRange(1, ENGINES_MAX), metavar="N", help="How many.")
@click.option(
    "--profile",
    metavar="V|SPEC",
    help="The releases to which it applies: 0.33.0, or a specifier such as '>=0.28,<0.33'.",
)
@click.option(
    "--hang",
    "hangs",
    metavar="RANK:WHAT",
    multiple=True,
    help="An engine that hangs, until a step lets it go on: 1:add_lora (a method), 1:add (a "
    "request). May be given again, for other ranks.",
)
@click.option(
    "--fail",
    "fails",
    metavar="RANK:METHOD[:TEXT]",
    multiple=True,
    help="An engine that answers a call with a failure. May be given again.",
)
@click.option("--method", metavar="NAME", help="The method that is called, if none hangs or fails.")
@click.option("--bare", is_flag=True, help="Without comments.")
@click.option("--no-schema", is_flag=True, help="Without the line, and the file, for editors.")
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write there.")
@click.option("-f", "--force", is_flag=True, help="Replace a file that is there.")
@json_option
def new_command(name: str | None, json_file: str | None, **flags: Any) -> int:
    """Write a small scenario that holds, with comments, to go on from.

    NAME is a path below the current folder without suffix, such as my-story or waves/my-story;
    its folders are made. On a terminal, what is missing is asked for.
    """
    output = Output(json_file)
    if flags["list_only"]:
        return _list(output)
    try:
        return _New(name, output, flags).go()
    except OrderError as error:
        raise usage_error(str(error), expected=error.expected, help_text=error.help) from error


def _list(output: Output) -> int:
    width = max(map(len, STARTS))
    for start in STARTS.values():
        line = Text()
        line.append(f"{start.name:<{width}}", "bold")
        output.say(line.append(f"  {start.about}"))
    rows = [
        {
            "id": start.name,
            "title": start.about,
            "invariants": list(start.invariants),
            "mutant": start.mutant or None,
            "profiles": start.profiles,
            "takes": sorted(start.takes),
            "targets": list(start.targets),
        }
        for start in STARTS.values()
    ]
    output.write(rows)
    return int(ExitCode.OK)


def on_terminal() -> bool:
    """Whether somebody is there who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


class _New:
    """One invocation."""

    def __init__(self, name: str | None, output: Output, flags: dict[str, Any]) -> None:
        self._name, self._output, self._flags = name, output, flags
        self._hangs = tuple(asked("--hang", words) for words in flags["hangs"])
        self._fails = tuple(asked("--fail", words) for words in flags["fails"])

    def go(self) -> int:
        """Choose, write, say what is next."""
        if self._name is not None and self._flags["out"] is not None:
            msg = "NAME and --out are both given"
            raise OrderError(msg, expected="one of them")
        path = self._path()
        check_free(path, force=self._flags["force"])
        order = filled(self._order())
        schema = None if self._flags["no_schema"] else schema_place(path)
        text = text_of(order, None if schema is None else schema.shown, shlex.quote(str(path)))
        self._check(text, path)
        self._write(path, text, schema)
        self._report(path, text, order, schema)
        return int(ExitCode.OK)

    # --- what it is to be -------------------------------------------------------------------

    def _path(self) -> Path:
        out: Path | None = self._flags["out"]
        if out is not None:
            return path_of_out(out)
        if self._name is None and not on_terminal():
            msg = "no name is given"
            raise OrderError(msg, expected="NAME, such as waves/my-story, or --out FILE")
        name = self._name
        if name is None:
            name = click.prompt("Name, such as waves/my-story", err=True)
        return path_of_name(name)

    def _order(self) -> Order:
        flags = self._flags
        name = flags["template"] or inferred(self._hangs, self._fails, flags["method"])
        order = Order(
            self._start(name) if name is not None else STARTS["request"],
            title=flags["title"],
            promise=flags["promise"],
            refs=flags["refs"],
            profiles=_specifier(flags["profile"]),
            engines=flags["engines"],
            hangs=self._hangs,
            fails=self._fails,
            method=flags["method"],
            bare=flags["bare"],
        )
        if name is not None:
            return order
        if not on_terminal():
            msg = "no template is given"
            help_text = "--list shows what they are; --hang and --fail imply one"
            raise OrderError(msg, expected=f"--template {'|'.join(STARTS)}", help_text=help_text)
        return self._asked_for(order)

    @staticmethod
    def _start(name: str) -> Start:
        if name not in STARTS:
            kind = "template"
            raise unknown_word(kind, name, STARTS)
        return STARTS[name]

    def _asked_for(self, order: Order) -> Order:
        """Ask for what makes a scenario; an empty answer takes what stands in brackets."""
        for start in STARTS.values():
            echo(f"  {start.name:<10} {start.about}", err=True)
        name = click.prompt(
            "Template",
            type=click.Choice(list(STARTS)),
            default="request",
            show_choices=False,
            err=True,
        )
        order = replace(order, start=STARTS[name])
        count = order.engines or click.prompt(
            "Engines",
            type=click.IntRange(order.start.engines_min, ENGINES_MAX),
            default=order.count,
            err=True,
        )
        order = replace(order, engines=count)
        if "fail" in order.start.takes:
            order = self._asked_call(filled(order))
        text = text_of(filled(order), None)
        scenario = parse(text, Path("new"), name="new").scenario
        title = order.title or click.prompt("Title", default=scenario.title, err=True)
        promise = order.promise or click.prompt("Promise", default=scenario.promise, err=True)
        return replace(order, title=title, promise=promise)

    @staticmethod
    def _asked_call(order: Order) -> Order:
        method = click.prompt("Method", default=order.called, err=True)
        hangs = _ranks("Engines that hang", [one.rank for one in order.hangs])
        fails = _ranks("Engines that fail", [one.rank for one in order.fails])
        # What is asked for here replaces what the template has of itself.
        return replace(
            order,
            start=STARTS["utility"],
            method=method,
            hangs=tuple(Asked(rank, method) for rank in hangs),
            fails=tuple(Asked(rank, method) for rank in fails),
        )

    # --- the files --------------------------------------------------------------------------

    @staticmethod
    def _check(text: str, path: Path) -> None:
        """Write nothing that is no valid scenario, e.g. since a reference is none."""
        try:
            parse(text, path, name=scenario_id(path))
        except ScenarioFileError as error:
            raise CommandError(error.diagnostics(), ExitCode.USAGE) from error

    @staticmethod
    def _write(path: Path, text: str, schema: SchemaPlace | None) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if schema is not None and schema.missing:
                write_own(schema.path, schema_text())
            write_text(path, text)
        except OSError as error:
            raise cannot_write(error.filename or path, error) from error

    def _report(self, path: Path, text: str, order: Order, schema: SchemaPlace | None) -> None:
        name = shlex.quote(str(path))
        lines = sum(
            bool(line.strip()) and not line.lstrip().startswith("#") for line in text.splitlines()
        )
        self._output.say(f"{path}: {order.start.name}, {counted(lines, 'line')} of YAML")
        if schema is not None and schema.missing:
            shown = os.path.relpath(schema.path)
            self._output.say(f"{shown}: what editors complete and check it with")
        if schema is not None and schema.stale:
            shown = os.path.relpath(schema.path)
            note = Diagnostic(
                "note",
                f"{shown} is the schema of another version",
                help=f"wavecheck schema scenario > {shlex.quote(shown)}",
            )
            self._output.show(note)
        target = "" if "sim" in order.start.targets else f" --target {order.start.targets[0]}"
        self._output.say("next:")
        commands = [
            f"wavecheck validate {name}",
            f"wavecheck explain {name}",
            f"wavecheck run {name}{target}",
            f"wavecheck watch {name}{target}",
        ]
        if shows := to_see(order, name):
            commands.append(f"{shows}  # is to be violated")
        for command in commands:
            self._output.say(f"  {command}")
        self._output.write(
            {
                "schema": SCHEMA,
                "tool": {"version": tool_version()},
                "path": str(path),
                "id": scenario_id(path),
                "template": order.start.name,
                "schema_file": None if schema is None else str(schema.path),
                "mutant": mutant_of(order) or None,
                "commands": commands,
            }
        )


def _ranks(question: str, default: list[int]) -> list[int]:
    """Ask for ranks, with commas between them; ``-`` is none."""
    shown = ",".join(map(str, default)) or "-"
    answer = click.prompt(f"{question} (ranks, - for none)", default=shown, err=True)
    words = [word.strip() for word in answer.split(",")]
    if words == ["-"]:
        return []
    ranks = [rank for word in words if (rank := number_of(word, RANKS_MAX - 1)) is not None]
    if len(ranks) < len(words):
        msg = f"'{shortened(answer, 200)}' are no ranks"
        raise OrderError(msg, expected="numbers with commas between them, or -")
    return ranks


def _specifier(text: str | None) -> str | None:
    """A specifier of releases; one release alone is made one."""
    if text is None:
        return None
    if text in RELEASES:
        return f"=={text}"
    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        msg = f"--profile: '{text}' is no release, and no specifier of releases"
        raise OrderError(
            msg, expected=f"one of {', '.join(RELEASES)}, or such as '>=0.28,<0.33'"
        ) from error
    return text
