"""``wavecheck soak``: write long stories of load, pauses and sleep, for any target to play."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.output import Folder, Output, cannot_write, check_folder
from harness.files import write_own
from harness.reports.wording import counted
from harness.scenario.writing import scenario_text
from harness.soak.story import Size, soak

EPILOG = """\b
Examples:
  wavecheck soak soak --seeds 200                  200 stories of 1,000 requests each
  wavecheck run soak --jobs 2                      play them in simulation
  wavecheck run soak --target vllm-rs --frontend 0.33.0

\b
Exit codes:
  0    written
  2    wrong use, or the folder cannot be written
"""


@click.command("soak", epilog=EPILOG)
@click.argument("folder", type=Folder(), metavar="DIR")
@click.option(
    "--seeds",
    type=click.IntRange(1, 100_000),
    default=10,
    show_default=True,
    metavar="N",
    help="How many stories; each seed is one.",
)
@click.option(
    "--first",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="The first seed.",
)
@click.option(
    "--engines",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    metavar="N",
    help="Ranks that step together.",
)
@click.option(
    "--requests",
    type=click.IntRange(1, 100_000),
    default=1_000,
    show_default=True,
    metavar="N",
    help="Callers in each story.",
)
@click.option(
    "--coordinator",
    type=click.Choice(["in-process", "external"]),
    default="in-process",
    show_default=True,
    help="Where the coordinator is.",
)
@click.option(
    "--overlaps",
    is_flag=True,
    help="Let two admins pause, or resume, at the same time now and then: open faults of the engines.",
)
@click.option(
    "--mended",
    is_flag=True,
    help="Engines without these faults, to show that nothing else is wrong.",
)
@click.option(
    "--leave",
    type=click.Choice(["any-time", "after-add"]),
    default="any-time",
    show_default=True,
    help="When callers hang up: any-time, or not before their request is at an engine. Real"
    " frontends have open faults in the first.",
)
def soak_command(
    folder: Path,
    seeds: int,
    first: int,
    engines: int,
    requests: int,
    coordinator: str,
    overlaps: bool,
    mended: bool,
    leave: str,
) -> int:
    """Write scenario files in which many callers come and go while engines pause and sleep.

    Engines step together as in their release. The same seed writes the same story. Files that are
    in DIR already are replaced if they have the same name.
    """
    check_folder(folder, "DIR")
    size = Size(engines, requests, coordinator, overlaps, mended, early=leave == "any-time")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for seed in range(first, first + seeds):
            write_own(folder / f"soak-{seed:04}.yaml", scenario_text(soak(seed, size)))
    except OSError as error:
        raise cannot_write(folder, error) from error
    Output(None).say(
        f"{counted(seeds, 'story', 'stories')} of {counted(requests, 'request')} in {folder};"
        f" play them: wavecheck run {folder}"
    )
    return 0
