"""What a fuzz family is: it makes inputs from a seed, and judges what the product did with each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251  (seeded, and outside of every simulated run)
from typing import Protocol

CORPUS = Path(__file__).with_name("corpus")


class Finding(Exception):  # noqa: N818  (what was found, not an error of the fuzzer)
    """The product broke a rule on this input; the text says which."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input.

    Attributes:
        release: profile that takes it.
        door: which way in, where a family has several.
        frames: the bytes; one frame for a text.
    """

    release: str
    door: str
    frames: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(map(len, self.frames))


class Family(Protocol):
    """One kind of input.

    Attributes:
        name: as on the command line, and the name of its corpus folder.
    """

    name: str

    def make(self, rng: Random) -> Input:
        """Draw one input."""

    def check(self, given: Input) -> str:
        """Feed it to the product and judge; returns what came of it, for the table.

        Raises:
            Finding: a rule is broken. Any other exception is a crash, hence a finding too.
        """

    def close(self) -> None:
        """Release what checks needed."""


def to_text(given: Input, why: str = "") -> str:
    """A corpus entry: JSON with the bytes in hexadecimal, and why it is kept."""
    document = {
        "why": why,
        "release": given.release,
        "door": given.door,
        "frames": [frame.hex() for frame in given.frames],
    }
    return json.dumps(document, indent=1) + "\n"


def from_text(text: str) -> Input:
    """Read a corpus entry."""
    document = json.loads(text)
    frames = tuple(bytes.fromhex(frame) for frame in document["frames"])
    return Input(document["release"], document["door"], frames)


def kept(name: str, corpus: Path = CORPUS) -> list[Path]:
    """Entries of a family, in the order of their names."""
    return sorted((corpus / name).glob("*.json"))
