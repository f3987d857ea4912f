"""Starts the child process that compares, and checks what it proves."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.targets.base import TargetError
from harness.targets.vllm_py.child import child_environment
from harness.targets.vllm_py.sources import SourceTree
from harness.targets.vllm_rs import starter

PARTS = ("engine", "coordinator")
_MODULE = "harness.differential.child"
_PROVEN = {"engine": "DPEngineCoreProc", "coordinator": "DPCoordinatorProc"}
_START_S, _SEQUENCE_S = 120.0, 1.0
_TAIL_LINES = 12


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
        "folder": str(tree.folder),
        "checksums": None if tree.checksums is None else dict(tree.checksums),
        "release": tree.release,
        "part": part,
        "sequences": sequences,
        "seed": seed,
        "first": first,
        "broken": broken,
    }
    timeout_s = _START_S + _SEQUENCE_S * sequences
    began = time.monotonic()  # noqa: TID251 - duration for people, no decision
    said = _ask(settings, timeout_s)
    seconds = round(time.monotonic() - began, 1)  # noqa: TID251
    proofs = said["proofs"]
    if not any(proof["name"].endswith("." + _PROVEN[part]) for proof in proofs):
        msg = f"no class {_PROVEN[part]} was executed"
        raise TargetError(msg)
    for proof in proofs:
        if (fault := tree.fault_of(Path(proof["file"]), proof["sha256"])) is not None:
            msg = f"{proof['name']} is not vLLM's: {fault}"
            raise TargetError(msg)
    counted = {key: said[key] for key in ("sequences", "effects", "seen", "found")}
    return Report(tree.release, part, seconds=seconds, **counted)


def _ask(settings: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    command = starter.dying_with_us([sys.executable, "-P", "-m", _MODULE])
    try:
        done = subprocess.run(
            command,
            input=json.dumps(settings),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env=child_environment(),
        )
    except subprocess.TimeoutExpired as error:
        msg = f"the comparison with vllm {settings['release']} took longer than {timeout_s:g} s"
        raise TargetError(msg) from error
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-_TAIL_LINES:])
        msg = f"vLLM's classes of {settings['release']} could not be compared:\n{tail}"
        raise TargetError(msg)
    said: dict[str, Any] = json.loads(done.stdout)
    return said
