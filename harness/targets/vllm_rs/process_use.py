"""What a process uses, as the system counts it."""

from __future__ import annotations

from typing import Any

from harness.targets.base import ProcessUse, TargetError


def load_psutil() -> Any:
    """Import psutil, which is in the extra ``frontend``.

    Raises:
        TargetError: it is not installed.
    """
    try:
        import psutil
    except ImportError as error:
        msg = "samples of a process need psutil: pip install wavecheck[frontend]"
        raise TargetError(msg) from error
    return psutil


def use_of(pid: int) -> ProcessUse | None:
    """Add up a process and its descendants; ``None`` if it is gone.

    A script that starts the frontend and stays is counted with it.
    """
    psutil = load_psutil()
    try:
        leader = psutil.Process(pid)
        family = [leader, *leader.children(recursive=True)]
        used = [_one(each) for each in family]
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return None
    return ProcessUse(
        rss_bytes=sum(each.rss_bytes for each in used),
        descriptors=sum(each.descriptors for each in used),
        threads=sum(each.threads for each in used),
    )


def _one(process: Any) -> ProcessUse:
    with process.oneshot():
        return ProcessUse(process.memory_info().rss, process.num_fds(), process.num_threads())
