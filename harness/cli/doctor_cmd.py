"""``wavecheck doctor``: what is missing here, and the command that mends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from harness.cli.output import Output, json_option
from harness.doctor import frontends, libraries, machine, trial
from harness.doctor.finding import Finding, State
from harness.reports.json_report import SCHEMA
from harness.reports.wording import counted
from harness.targets.registry import KINDS
from harness.verdict import ExitCode
from harness.version import tool_version

_STYLES = {State.OK: "green", State.OPTIONAL: "yellow", State.MISSING: "bold red"}
_WIDTH = 10


@click.command(
    "doctor",
    epilog="""\b
Exit codes:
  0  all is here that the target needs; what is optional may be missing
  2  wrong use
  3  something that the target needs is missing, or does not work

\b
Examples:
  wavecheck doctor
  wavecheck doctor --target vllm-rs      what the real frontend needs counts, too
  wavecheck doctor --json -
""",
)
@click.option(
    "--target",
    type=click.Choice(list(KINDS)),
    default="zmq",
    show_default=True,
    help="What is to be played against; what only others need is optional.",
)
@json_option
def doctor_command(target: str, json_file: str | None) -> int:
    """Look at Python, libraries, sockets, folders, binaries and browser, and tell what is missing.

    Nothing is installed or downloaded. Each thing that is missing comes with the command that
    mends it.
    """
    output = Output(json_file)
    findings: list[Finding] = []
    for finding in examine(target):
        findings.append(finding)
        output.say(_line(finding))
    counts = Counter(finding.state for finding in findings)
    missing = counts[State.MISSING]
    code = ExitCode.HARNESS if missing else ExitCode.OK
    output.say(_summary(target, counts))
    output.write(
        {
            "schema": SCHEMA,
            "tool": {"version": tool_version()},
            "target": target,
            "findings": [_object(finding) for finding in findings],
            "summary": {
                "ok": counts[State.OK],
                "optional": counts[State.OPTIONAL],
                "missing": missing,
                "exit": int(code),
            },
        }
    )
    return int(code)


def examine(target: str) -> Iterator[Finding]:
    """Look at everything, the most basic first."""
    yield libraries.python()
    yield from libraries.libraries(target)
    yield from trial.scenarios()
    yield from machine.sockets(target)
    yield from machine.descriptors()
    yield from machine.folders(target)
    yield from frontends.cache_folder(target)
    yield from frontends.binaries(target)
    yield from frontends.browser()


def _line(finding: Finding) -> Text:
    out = Text()
    out.append(f"{finding.state:<{_WIDTH}}", _STYLES[finding.state])
    out.append(f" {finding.name}", "bold")
    out.append(f": {finding.found}")
    if not finding.good:
        for label, value in (("needed by", finding.used_for), ("mend", finding.mend)):
            out.append(f"\n{'':<{_WIDTH}}   {label + ':':<10} {value}")
    return out


def _summary(target: str, counts: Counter[State]) -> str:
    if missing := counts[State.MISSING]:
        verb = "is" if missing == 1 else "are"
        return f"{counted(missing, 'thing')} that {target} needs {verb} missing"
    rest = counts[State.OPTIONAL]
    more = f"; {counted(rest, 'optional thing')} not" if rest else ""
    return f"all that {target} needs is here{more}"


def _object(finding: Finding) -> dict[str, Any]:
    return {
        "name": finding.name,
        "state": str(finding.state),
        "found": finding.found,
        "needed": finding.needed,
        "used_for": finding.used_for,
        "mend": "" if finding.good else finding.mend,
    }
