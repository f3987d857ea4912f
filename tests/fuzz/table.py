"""``python -m tests.fuzz.table``: what the campaigns in ``wavecheck-out/fuzz`` came to.

``--write`` puts the rows into ``docs/reliability.md``.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from tests.fuzz import registry

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- campaigns -->\n", "<!-- end campaigns -->"
FED = {
    "outputs": ("EngineCoreOutputs of every class", "4: nesting, keys that stand twice, `true` and `1`, texts"),
    "requests": ("ADD, ABORT, UTILITY, START_DP_WAVE", "1: nesting"),
    "utility": ("utility replies and their envelopes", "1: nesting"),
    "tensors": ("tensors, logprobs, masks and aux frames", "4: products, digits, time, texts"),
    "handshake": ("HELLO of one engine, at a client", "2: keys that stand twice, what is kept"),
    "registration": ("registration of one engine, at a client", "1: nesting"),
    "coordinator": ("wave notices and outputs, at a client with an open call", "1: texts"),
    "publishes": ("publishes at a client; what reaches the external coordinator", "3: sizes that are claimed"),
    "scenario": ("scenario files", "3: texts, nesting in a frame's JSON"),
    "failure": ("failure files, opened for a replay", "4: NaN, keys, texts, numbers beyond all"),
    "adapter": ("lines of an adapter", "3: NaN, keys, texts"),
    "http": ("requests to our own HTTP server", "7: answers, numbers, sent and never read, paths"),
    "grpc": ("bytes to our own gRPC server", "1: answers"),
}  # fmt: skip
"""What is fed, and what was found before it was mended."""


def rows(state: Path, seed: int) -> list[str]:
    """One row of the page for each family."""
    found = [
        "| family | what is fed | inputs | left | findings, all mended |",
        "|---|---|---|---|---|",
    ]
    for name in registry.FAMILIES:
        path = state / f"{name}-{seed}.jsonl"
        blocks = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        told = [json.loads(line) for line in blocks]
        inputs = sum(block["inputs"] for block in told)
        left = sum(block["findings"] for block in told)
        fed, kinds = FED[name]
        found.append(
            f"| `{name}` | {fed} | {inputs:,} of {registry.due(name):,} | {left} | {kinds} |"
        )
    return found


@click.command()
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--state", type=click.Path(path_type=Path), default=Path("wavecheck-out") / "fuzz")
@click.option("--write", is_flag=True, help="put it into docs/reliability.md")
def main(seed: int, state: Path, *, write: bool) -> None:
    """Print inputs and findings of each family."""
    table = "\n".join(rows(state, seed)) + "\n"
    if write:
        text = PAGE.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        PAGE.write_text(head + BEGIN + table + END + rest.partition(END)[2], encoding="utf-8")
    click.echo(table, nl=False)


if __name__ == "__main__":
    main()
