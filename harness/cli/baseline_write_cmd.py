"""``wavecheck baseline write``: from what a run came to, to what is expected from now on."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import click

from harness.baseline.clock import day_or_span
from harness.baseline.file import BaselineFile
from harness.baseline.inputs import Played
from harness.baseline.making import Signature, merged, pins_of, waivers_of, window_of
from harness.baseline.model import FORMAT, Baseline, Waiver
from harness.baseline.writing import baseline_text
from harness.cli.against_baseline import day_of, opened, today_option
from harness.cli.baseline_files import edited, results_of, write_file
from harness.cli.output import Output, check_writable, usage_error
from harness.reports.diagnostic import Diagnostic
from harness.reports.wording import counted
from harness.targets.registry import is_black_box
from harness.verdict import ERROR, ExitCode


@click.command(
    "write",
    epilog="""\b
Exit codes:
  0  written
  2  bad input, wrong use; a waiver would lack its owner, reason or expiry
  3  the file cannot be written
""",
)
@click.argument("given", metavar="RUN|FAILURE", type=click.Path(path_type=Path))
@click.option("-o", "--output", "output_file", metavar="FILE", required=True, help="Where it goes.")
@click.option("--owner", metavar="WHO", help="Who answers for what is waived.")
@click.option("--reason", metavar="TEXT", help="Why it is accepted for now.")
@click.option(
    "--expires",
    metavar="DAY|Nd",
    help="The last day on which the waivers are valid, YYYY-MM-DD, or days from today: 90d.",
)
@click.option(
    "--releases",
    metavar="SPEC",
    help="Which releases it is about, such as '>=0.33.0'. Default: the release of a real "
    "frontend; all for our own client.",
)
@click.option(
    "--update",
    is_flag=True,
    help="Change FILE: pins become those of RUN, waivers stay, new violations get new ones. What "
    "people wrote in it stays as it is.",
)
@today_option
def write_command(
    given: Path,
    output_file: str,
    owner: str | None,
    reason: str | None,
    expires: str | None,
    releases: str | None,
    update: bool,
    today: dt.date | None,
) -> int:
    """Write a baseline from what a run came to.

    RUN is the JSON of `wavecheck run --json` or `wavecheck matrix`: its scenarios are pinned, and
    its violations waived. FAILURE is a failure file, or a folder of them: these violations are
    waived, and nothing is pinned. Without violations nobody needs to be named.

    An expired waiver is never renewed by this command: its owner does that in the file.
    """
    place = Path(check_writable(output_file, "-o"))
    if place.exists() and not update:
        msg = f"-o: {place} exists"
        raise usage_error(msg, help_text="--update changes it and keeps its waivers")
    day = day_of(today)
    found = results_of(given)
    windows = window_of(found.results, black_box=is_black_box(found.target), asked=releases)
    file = opened(place) if update and place.exists() else None
    old = Baseline(format=FORMAT) if file is None else file.baseline
    pins = pins_of(found.results, windows) if found.whole else []
    waivers = _new_waivers(found, windows, file, (owner, reason, expires), day)
    wanted = merged(old, pins, waivers)
    text = baseline_text(wanted) if file is None else edited(file, wanted)
    write_file(place, text)
    output = Output(None)
    if errors := sum(one.status == ERROR for one in found.results):
        title = f"{counted(errors, 'result')} in error are neither pinned nor waived"
        output.show(Diagnostic("note", title, help="play them again, then --update"))
    judged = len({name for pin in pins for name in pin.judged})
    output.say(
        f"written: {place}: {counted(judged, 'scenario')} pinned as judged, "
        f"{counted(len(waivers), 'new waiver')}, {counted(len(old.waivers), 'waiver')} kept"
    )
    return int(ExitCode.OK)


def _new_waivers(
    found: Played,
    windows: dict[str, str],
    file: BaselineFile | None,
    signed: tuple[str | None, str | None, str | None],
    today: dt.date,
) -> list[Waiver]:
    """Waivers of violations that no waiver of the file is about."""
    there = [] if file is None else file.baseline.waivers
    unwaived = [
        replace(
            one,
            broken=tuple(
                name
                for name in one.broken
                if not any(
                    (w.scenario, w.invariant) == (one.scenario, name)
                    and w.covers(one.target, one.release)
                    for w in there
                )
            ),
        )
        for one in found.results
    ]
    number = sum(len(one.broken) for one in unwaived)
    if not number:
        return []
    named = zip(("--owner", "--reason", "--expires"), signed, strict=True)
    missing = [flag for flag, value in named if not (value or "").strip()]
    if missing:
        msg = f"{counted(number, 'violation')} to waive, and {', '.join(missing)} not given"
        raise usage_error(
            msg,
            expected="who answers for it, why it is accepted, and until when",
            help_text='--owner @team --reason "why" --expires 90d',
        )
    owner, reason, expires = (str(value) for value in signed)
    try:
        day = day_or_span(expires, today)
    except ValueError as error:
        msg = f"--expires: {error}"
        raise usage_error(msg, expected="YYYY-MM-DD, or days from today: 90d") from error
    if day < today:
        msg = f"--expires: {day} is over (today is {today})"
        raise usage_error(msg, expected="today or a later day")
    return waivers_of(unwaived, windows, Signature(owner, reason, day))
