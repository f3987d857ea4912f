"""The program ``wavecheck-frontend``: what stands in for the binary ``vllm-rs``.

Nothing heavy is imported before the options are known to be right.
"""

from __future__ import annotations

from typing import Any

import click

from client.protocol.profiles import NEWEST
from harness.reference_frontend.options import serve_command

PROGRAM = "wavecheck-frontend"


def _tell_version(context: click.Context, _option: click.Parameter, wanted: Any) -> None:
    """Say which release is imitated by default; the last word is what a caller reads."""
    if wanted:
        click.echo(f"{PROGRAM} (reference frontend of wavecheck) {NEWEST}")
        context.exit()


@click.group(PROGRAM)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_tell_version,
    help="Say the newest release that is imitated, and end.",
)
def program() -> None:
    """Serve the reference client over HTTP and gRPC, with the command line of vllm-rs."""


program.add_command(serve_command)


def main() -> None:
    """Entry point of the console script."""
    program(prog_name=PROGRAM)
