"""Child process: vLLM's coordinator of one release, run by vLLM's own entry function.

Standard input takes one JSON object with the settings, then acknowledgements and commands (see
``tap``); standard output tells turns and log lines.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import zmq

from harness.targets.vllm_py import given
from harness.targets.vllm_py.loader import Loaded
from harness.targets.vllm_py.members import COORDINATOR
from harness.targets.vllm_py.pipe import Pipe
from harness.targets.vllm_py.stubs import tell_uses_to
from harness.targets.vllm_py.tap import BACK, FRONT, SUBSCRIPTION, Tap, make_classes

CLASS = "DPCoordinatorProc"


def serve(settings: dict[str, Any], pipe: Pipe) -> None:
    """Load the class, prove it, and run it until it ends by itself or is killed."""
    given.send_logs_to(lambda level, name, text: pipe.say(log=level, name=name, text=text))
    tell_uses_to(lambda what: pipe.say(broken=what))
    loaded = Loaded(Path(settings["folder"]), settings["checksums"])
    coordinator = loaded.get(COORDINATOR, CLASS)
    proof = loaded.prove(coordinator)
    tap = Tap(
        pipe,
        {
            settings["front"]: FRONT,
            settings["back"]: BACK,
            settings["subscription"]: SUBSCRIPTION,
        },
    )
    socket_class, poller_class = make_classes(tap)
    # All sockets of this process.
    setattr(zmq.Context, "_socket_class", socket_class)  # noqa: B010 - it is generic, says mypy
    zmq.Poller = poller_class  # type: ignore[misc]
    pipe.say(proof=proof.name, file=proof.file, sha256=proof.sha256)
    coordinator.run_coordinator(
        engine_count=settings["engines"],
        front_publish_address=settings["front"],
        back_output_address=settings["back"],
        back_publish_address=settings["subscription"],
        zmq_addr_pipe=_Bound(pipe),
        enable_wave_coordination=settings["waves"],
    )


class _Bound:
    """Stands for the pipe on which the coordinator tells its parent that it is bound."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def send(self, addresses: tuple[str, str, str]) -> None:
        self._pipe.say(bound=list(addresses))

    def close(self) -> None:
        pass


def main() -> int:
    """Entry."""
    pipe = Pipe()
    try:
        serve(pipe.hear(), pipe)
    except Exception as error:  # noqa: BLE001 - the parent is told
        pipe.say(died=f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
        return 1
    pipe.say(died="it returned", traceback="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
