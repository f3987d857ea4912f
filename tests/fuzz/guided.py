"""``python -m tests.fuzz.guided FAMILY --seconds N``: the same judgement, led by coverage of the codec.

Needs the extra ``[fuzz]`` (atheris). The engine mutates raw bytes: the first byte chooses the release,
the second how many frames there are, then each frame has two bytes of length before it. What it
learns stays in ``wavecheck-out/fuzz/guided/FAMILY``; an input that breaks a rule ends it and is kept
in the corpus of the family.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random  # noqa: TID251

import click

FRAMES_MAX = 4
LENGTH_BYTES = 2


def frames_of(data: bytes) -> tuple[int, tuple[bytes, ...]]:
    """Read the release's number and the frames out of what the engine made."""
    number, count = (data[0], data[1] % (FRAMES_MAX + 1)) if len(data) > 1 else (0, 0)
    rest, frames = data[2:], []
    for at in range(count):
        size = int.from_bytes(rest[:LENGTH_BYTES], "big")
        rest = rest[LENGTH_BYTES:]
        last = at == count - 1
        frames.append(rest if last else rest[:size])
        rest = rest[size:]
    return number, tuple(frames)


def data_of(number: int, frames: tuple[bytes, ...]) -> bytes:
    """Write what ``frames_of`` reads."""
    few = frames[:FRAMES_MAX]
    parts = [
        len(frame).to_bytes(LENGTH_BYTES, "big", signed=False) + frame
        for frame in few
        if len(frame) < 1 << 16
    ]
    return bytes([number, len(parts)]) + b"".join(parts)


@click.command()
@click.argument(
    "name", metavar="FAMILY", type=click.Choice(["outputs", "requests", "utility", "tensors"])
)
@click.option("--seconds", type=click.IntRange(1), default=60, show_default=True)
@click.option("--seed", type=click.IntRange(1), default=1, show_default=True)
def main(name: str, seconds: int, seed: int) -> None:
    """Feed inputs that coverage leads to to FAMILY, for so many seconds."""
    try:
        import atheris
    except ImportError as error:
        text = "needs atheris: pip install 'wavecheck[fuzz]' (CPython 3.11 to 3.13 on Linux)"
        raise click.ClickException(text) from error
    with atheris.instrument_imports(include=["client.protocol"]):
        from client.protocol.profiles import RELEASES
        from tests.fuzz import driver, registry
    from tests.fuzz.model import CORPUS, Input

    family = registry.family(name)
    folder = Path("wavecheck-out") / "fuzz" / "guided" / name
    folder.mkdir(parents=True, exist_ok=True)
    rng = Random(seed)
    for at in range(300):
        made = family.make(rng)
        (folder / f"seed-{at:03}").write_bytes(data_of(RELEASES.index(made.release), made.frames))
    door = "told" if name == "requests" else "classify"

    def one(data: bytes) -> None:
        number, frames = frames_of(data)
        given = Input(RELEASES[number % len(RELEASES)], door, frames)
        try:
            family.check(given)
        except Exception as error:
            path = driver.keep(CORPUS, name, given, f"{type(error).__name__}: {error}"[:300])
            click.echo(f"{name}: {path}: {error}", err=True)
            raise

    arguments = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        "-max_len=4096",
        "-rss_limit_mb=2048",
        "-timeout=10",
        str(folder),
    ]
    atheris.Setup(arguments, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
