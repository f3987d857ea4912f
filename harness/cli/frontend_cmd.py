"""``wavecheck frontend``: get the binaries of the real Rust frontend."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from harness.cli.output import STDOUT, check_writable
from harness.cli.pool import interruptible
from harness.targets.base import TargetError
from harness.targets.vllm_rs import cache
from harness.targets.vllm_rs.fetch import fetch
from harness.targets.vllm_rs.releases import UnknownFrontendError, known_release

_TARGET_FAILURE = 3


@click.group("frontend")
def frontend() -> None:
    """Get and look after the real Rust frontend, vllm-rs."""


@frontend.command("fetch")
@click.argument("releases", metavar="V...", nargs=-1, required=True)
@click.option(
    "--json",
    "json_path",
    metavar="FILE",
    help="Write release, path and sha256 of each binary as JSON; - is stdout.",
)
def fetch_command(releases: tuple[str, ...], json_path: str | None) -> None:
    """Fetch the frontend of the releases V..., out of the wheels on the package index.

    pip does the download, with your own pip configuration. A binary that is in the cache already
    is checked and used. For each release the path and the SHA-256 are printed. The cache is the
    user's cache folder, or WAVECHECK_CACHE.
    """
    if json_path not in (None, STDOUT):
        check_writable(json_path, "--json")
    try:
        wanted = [known_release(release) for release in releases]
    except UnknownFrontendError as error:
        raise click.BadParameter(str(error), param_hint="V") from error
    found = []
    for release in wanted:
        try:
            with interruptible():
                path = fetch(release, lambda line: click.echo(line, err=True))
        except TargetError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(_TARGET_FAILURE)
        digest = cache.sha256_of(path)
        found.append({"release": release, "path": str(path), "sha256": digest})
        if json_path != STDOUT:
            click.echo(f"{release}  {path}  sha256:{digest}")
    if json_path is not None:
        _write(json_path, json.dumps(found, indent=2))


def _write(path: str, text: str) -> None:
    if path == STDOUT:
        click.echo(text)
        return
    try:
        Path(path).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise click.BadParameter(msg, param_hint="--json") from error
