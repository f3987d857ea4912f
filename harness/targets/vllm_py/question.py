"""One question to a child process that executes vLLM's classes, and the proof that it did."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.targets.base import TargetError
from harness.targets.vllm_py.child import child_environment
from harness.targets.vllm_py.sources import SourceTree
from harness.targets.vllm_rs import starter

_TAIL_LINES = 12


def ask(
    module: str, tree: SourceTree, settings: Mapping[str, Any], *, what: str, timeout_s: float
) -> dict[str, Any]:
    """Run ``module`` in a child process; return what it says, of classes that are vLLM's.

    Args:
        module: reads one JSON object from standard input and writes one, whose ``proofs`` say for
            each class where it comes from.
        tree: the sources; its folder and checksums go to the child too.
        settings: what else the child is told.
        what: the question, for error texts.
        timeout_s: a net, for a child that does not end.

    Raises:
        TargetError: the child failed, took too long, or executed what is not vLLM's.
    """
    told = {
        "folder": str(tree.folder),
        "checksums": None if tree.checksums is None else dict(tree.checksums),
        **settings,
    }
    try:
        done = subprocess.run(
            starter.dying_with_us([sys.executable, "-P", "-m", module]),
            input=json.dumps(told),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env=child_environment(),
        )
    except subprocess.TimeoutExpired as error:
        msg = f"{what} took longer than {timeout_s:g} s"
        raise TargetError(msg) from error
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-_TAIL_LINES:])
        msg = f"{what} failed:\n{tail}"
        raise TargetError(msg)
    said: dict[str, Any] = json.loads(done.stdout)
    for proof in said["proofs"]:
        if (fault := tree.fault_of(Path(proof["file"]), proof["sha256"])) is not None:
            msg = f"{proof['name']} is not vLLM's: {fault}"
            raise TargetError(msg)
    return said
