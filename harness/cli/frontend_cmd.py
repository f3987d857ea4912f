"""``wavecheck frontend``: binaries of the real frontend, and the reference frontend."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from harness.cli.output import STDOUT, check_writable, echo, to_stdout
from harness.cli.pool import interruptible
from harness.reference_frontend.options import serve_command
from harness.targets.base import TargetError
from harness.targets.vllm_rs import cache
from harness.targets.vllm_rs.fetch import available, fetch
from harness.targets.vllm_rs.releases import RELEASES, UnknownFrontendError, fetchable_release

ALL = "all"
"""Stands for every known release."""
_TARGET_FAILURE = 3


@click.group("frontend")
def frontend() -> None:
    """Get the real Rust frontend, vllm-rs, or serve the reference frontend in its place."""


@frontend.command("fetch")
@click.argument("releases", metavar="V...|all", nargs=-1, required=True)
@click.option(
    "--whole",
    is_flag=True,
    help="Download the whole wheel and have pip check its hash, even where the package index "
    "gives single files.",
)
@click.option(
    "--json",
    "json_path",
    metavar="FILE",
    help="Write release, path and sha256 of each binary as JSON; - is stdout.",
)
def fetch_command(releases: tuple[str, ...], whole: bool, json_path: str | None) -> None:
    """Fetch the frontend of the releases V..., out of the wheels on the package index.

    Your own pip configuration says where from. Where the index allows it only the one file is
    fetched, about 20 MB instead of 250 to 340; else pip downloads the whole wheel. A binary that
    is in the cache already is checked and used, without any network. For each release the path
    and the SHA-256 are printed. The cache is the user's cache folder, or WAVECHECK_CACHE.
    """
    if json_path not in (None, STDOUT):
        check_writable(json_path, "--json")
    try:
        wanted = _wanted(releases)
    except UnknownFrontendError as error:
        raise click.BadParameter(str(error), param_hint="V") from error
    found, failures = [], 0
    for release in wanted:
        try:
            with interruptible():
                path = None if whole else available(release)
                if path is None:
                    path = fetch(release, lambda line: echo(line, err=True), whole=whole)
        except TargetError as error:
            echo(f"error: {error}", err=True)
            failures += 1
            continue
        digest = cache.sha256_of(path)
        found.append({"release": release, "path": str(path), "sha256": digest})
        if json_path != STDOUT:
            echo(f"{release}  {path}  sha256:{digest}")
    if json_path is not None:
        _write(json_path, json.dumps(found, indent=2))
    if failures:
        if len(wanted) > 1:
            echo(f"error: {failures} of {len(wanted)} could not be fetched", err=True)
        sys.exit(_TARGET_FAILURE)


frontend.add_command(serve_command)


def _wanted(releases: tuple[str, ...]) -> list[str]:
    """The releases that are named, each once, in the order given."""
    named: list[str] = []
    for release in releases:
        named += RELEASES if release == ALL else [fetchable_release(release)]
    return list(dict.fromkeys(named))


def _write(path: str, text: str) -> None:
    if path == STDOUT:
        to_stdout(f"{text}\n")
        return
    try:
        Path(path).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise click.BadParameter(msg, param_hint="--json") from error
