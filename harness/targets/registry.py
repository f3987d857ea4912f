"""Targets by kind."""

from __future__ import annotations

from collections.abc import Mapping

from client.transports.folders import sweep
from harness.targets.reference import SimTarget, ZmqTarget
from harness.targets.request import TargetRequest
from harness.targets.target import Target

KINDS: Mapping[str, str] = {
    "sim": SimTarget.title,
    "zmq": ZmqTarget.title,
    "vllm-rs": "the real Rust frontend of a release or a build, as a black box",
    "vllm-py": "vLLM's own Python classes of a release, without torch",
    "adapter": "any client or frontend, behind a line protocol",
}


def is_black_box(kind: str) -> bool:
    """Whether targets of this kind judge a frontend that is not ours, without opening one."""
    return kind in {"vllm-rs", "vllm-py"}


def takes_mutant(kind: str) -> bool:
    """Whether a mutant is the business of the target, as it is not for our own client."""
    return is_black_box(kind) or kind == "adapter"


def open_target(request: TargetRequest) -> Target:
    """Open a target for one command.

    Raises:
        ValueError: there is no such kind.
        TargetError: the target cannot be had here (no binary, missing extra).
    """
    kind = request.kind
    if kind == "sim":
        return SimTarget()
    if kind in KINDS:
        # All others have socket files, which a run that was killed leaves behind.
        sweep()
    if kind == "zmq":
        return ZmqTarget()
    if kind == "vllm-rs":
        if request.attach is not None:
            from harness.targets.vllm_rs.attached_target import AttachedTarget

            return AttachedTarget.open(request)
        from harness.targets.vllm_rs.target import VllmRsTarget

        return VllmRsTarget.open(request)
    if kind == "vllm-py":
        from harness.targets.vllm_py.target import VllmPyTarget

        return VllmPyTarget.open(request)
    if kind == "adapter":
        from harness.targets.adapter.target import AdapterTarget

        return AdapterTarget.open(request)
    msg = f"there is no target {kind!r}; targets are {', '.join(KINDS)}"
    raise ValueError(msg)
