"""Starts the child process that compares, and checks what it proves."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import asdict, dataclass
from typing import Any

from harness.targets.base import TargetError
from harness.targets.vllm_py import question
from harness.targets.vllm_py.sources import SourceTree

PARTS = ("engine", "coordinator")
_MODULE = "harness.differential.child"
_PROVEN = {"engine": "DPEngineCoreProc", "coordinator": "DPCoordinatorProc"}
_START_S, _SEQUENCE_S = 120.0, 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one part of one release.

    Attributes:
        effects: on which both sides were compared.
        seen: how often each kind of effect came.
        found: the first difference, with the shortest moves that lead to it; ``None`` if none.
    """

    release: str
    part: str
    sequences: int
    effects: int
    seconds: float
    seen: dict[str, int]
    found: dict[str, Any] | None

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def compare(
    tree: SourceTree,
    part: str = "engine",
    *,
    sequences: int,
    seed: int = 1,
    first: int = 0,
    broken: str | None = None,
) -> Report:
    """Compare the sequences ``first``, ``first + 1`` … of a seed; ends at the first difference.

    Raises:
        TargetError: the classes cannot be executed, or are not vLLM's.
    """
    if importlib.util.find_spec("greenlet") is None:
        msg = "greenlet is not installed; install wavecheck with the extra differential"
        raise TargetError(msg)
    settings = {
        "release": tree.release,
        "part": part,
        "sequences": sequences,
        "seed": seed,
        "first": first,
        "broken": broken,
    }
    timeout_s = _START_S + _SEQUENCE_S * sequences
    began = time.monotonic()  # noqa: TID251 - duration for people, no decision
    said = question.ask(
        _MODULE, tree, settings, what=f"the comparison with {tree.release}", timeout_s=timeout_s
    )
    seconds = round(time.monotonic() - began, 1)  # noqa: TID251
    if not any(proof["name"].endswith("." + _PROVEN[part]) for proof in said["proofs"]):
        msg = f"no class {_PROVEN[part]} was executed"
        raise TargetError(msg)
    counted = {key: said[key] for key in ("sequences", "effects", "seen", "found")}
    return Report(tree.release, part, seconds=seconds, **counted)
