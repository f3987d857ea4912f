"""``wavecheck explain``: what a scenario does, in prose."""

from __future__ import annotations

import click

from client.protocol.profiles import RELEASES
from harness.authoring.explanation import document, explain
from harness.authoring.telling import text
from harness.cli import completing
from harness.cli.output import Output, json_option, unknown_word
from harness.cli.selecting import Part, chosen
from harness.reports.json_report import SCHEMA
from harness.verdict import ExitCode
from harness.version import tool_version


@click.command(
    "explain",
    epilog="""\b
Examples:
  wavecheck explain waves/stale-first-request
  wavecheck explain mine.yaml --profile 0.28.0
  wavecheck explain utility --json -           a chapter, for a program
""",
)
@click.argument(
    "names",
    metavar="PATH|ID...",
    nargs=-1,
    required=True,
    shell_complete=completing.scenario_names,
)
@click.option(
    "--profile",
    metavar="V",
    shell_complete=completing.releases,
    help="The release for which invariants and targets are told. Default: the newest to which "
    "the scenario applies.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also what each invariant that judges demands.")
@json_option
def explain_command(
    names: tuple[str, ...], profile: str | None, verbose: bool, json_file: str | None
) -> int:
    """Say in prose what a scenario does, who judges it, and where it can be played.

    PATH is a scenario file or a folder of them, ID a built-in scenario or a chapter. Nothing is
    played and nothing is fetched.
    """
    output = Output(json_file)
    if profile is not None and profile not in RELEASES:
        kind = "release"
        raise unknown_word(kind, profile, RELEASES)
    loaded = chosen(names, Part())
    told = [explain(one, profile) for one in loaded]
    for number, one in enumerate(told):
        if number:
            output.say("")
        output.say(text(one, output.columns, verbose=verbose))
    output.write(
        {
            "schema": SCHEMA,
            "tool": {"version": tool_version()},
            "scenarios": [document(one) for one in told],
        }
    )
    return int(ExitCode.OK)
