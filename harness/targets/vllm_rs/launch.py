"""What one start of the binary needs before it, and how it is reached afterwards.

``ServeLaunch`` makes it a handshake owner; ``harness.targets.vllm_rs.bootstrapped`` has the other
mode. Both are made before the engines join, and hold what must stay theirs until the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.scenario.model import Topology
from harness.targets.base import TargetError
from harness.targets.vllm_rs.command import HOST, ServeOptions, serve_command
from harness.targets.vllm_rs.model_folder import model_folder
from harness.targets.vllm_rs.ports import PortLease
from mock_engines.cluster import JoinAddresses


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What every launch is made from.

    Attributes:
        arguments: of the user and the scenario, in this order.
        shutdown_timeout_s: drain time, an option of the start (whole seconds).
    """

    binary: Path
    release: str
    topology: Topology
    arguments: tuple[str, ...] = ()
    shutdown_timeout_s: float = 0.0


class Launch(Protocol):
    """One start of the binary. Made once, ``release``d once, whatever happens between."""

    @property
    def model(self) -> Path:
        """The model's folder, which is also its name."""

    @property
    def addresses(self) -> JoinAddresses:
        """Where the engines join."""

    @property
    def http(self) -> str:
        """Where HTTP is served: ``http://host:port`` or ``unix:path``."""

    @property
    def grpc(self) -> str | None:
        """Where gRPC is served: ``host:port`` or ``unix:path``; ``None``: nowhere."""

    @property
    def command(self) -> list[str]:
        """The command line."""

    @property
    def inherited(self) -> Sequence[int]:
        """Descriptors that the process gets."""

    def started(self) -> None:
        """The process has its descriptors; ours go."""

    def release(self) -> None:
        """Give everything back. Idempotent."""


def is_moe(topology: Topology) -> bool:
    """Whether the model must be one with experts: only these have waves."""
    return topology.coordinator != "none"


class ServeLaunch:
    """The binary as handshake owner, on leased TCP ports."""

    inherited: Sequence[int] = ()

    def __init__(self, spec: LaunchSpec) -> None:
        """Lease ports and make the model folder.

        Raises:
            TargetError: neither can be had.
        """
        self.model = model_folder(moe=is_moe(spec.topology))
        self._lease = PortLease(3)
        http_port, grpc_port, handshake_port = self._lease.ports
        self.options = ServeOptions(
            model=self.model,
            engines=len(spec.topology.rank_list),
            http_port=http_port,
            grpc_port=grpc_port,
            handshake_port=handshake_port,
            ready_timeout_s=spec.topology.config.ready_timeout_s,
            shutdown_timeout_s=spec.shutdown_timeout_s,
        )
        self.command = serve_command(spec.binary, spec.release, self.options, spec.arguments)
        self.addresses = JoinAddresses(handshake=f"tcp://{HOST}:{handshake_port}")
        self.http = f"http://{HOST}:{http_port}"
        self.grpc: str | None = f"{HOST}:{grpc_port}"

    def started(self) -> None:
        """The process binds its ports itself; the leases stay."""

    def release(self) -> None:
        """Give the ports back."""
        self._lease.release()


def not_prepared() -> TargetError:
    """Return the error of a frontend that is used before ``prepare``."""
    return TargetError("the frontend was not prepared")
