"""The binary as vLLM's own supervisor starts it: bootstrapped, sockets given to it.

HTTP, and from 0.32 on gRPC and the data plane too, are Unix sockets that listen before the
process exists and are inherited by it; the addresses that it binds itself (up to 0.31) are socket
files in the private folder of the run. So no port is used at all.

Whoever connects early waits in the backlog: the first answer of ``/health`` *is* the moment in
which it serves.

Source: ``vllm-rs frontend --help`` of each release; vLLM ``rust/src/cmd``.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from client.protocol.transport import Transport, TransportError
from harness.targets.base import TargetError
from harness.targets.sizes import sizes_of
from harness.targets.vllm_rs.command import (
    LISTENERS_SINCE,
    SIZE_SINCE,
    BootstrapOptions,
    bootstrap_command,
)
from harness.targets.vllm_rs.launch import LaunchSpec, is_moe
from harness.targets.vllm_rs.model_folder import model_folder
from harness.targets.vllm_rs.releases import at_least
from mock_engines.cluster import JoinAddresses

_SCHEME = "ipc://"
_BACKLOG = 512


class BootstrapLaunch:
    """The binary with inherited sockets.

    Args:
        spec: what is started.
        transport: makes the addresses; they are files in its private folder.
        coordinator: front address of the external coordinator, ``None`` without one.
        engine_side: where engines find that coordinator: input and output address.

    Raises:
        TargetError: a socket cannot be opened.
    """

    def __init__(
        self,
        spec: LaunchSpec,
        transport: Transport,
        *,
        coordinator: str | None = None,
        engine_side: tuple[str, str] | None = None,
    ) -> None:
        self.model = model_folder(moe=is_moe(spec.topology))
        self._listeners: list[socket.socket] = []
        try:
            self._open(spec, transport, coordinator, engine_side)
        except (OSError, TransportError) as error:
            self.release()
            msg = f"cannot open the sockets of the frontend: {error}"
            raise TargetError(msg) from error

    def _open(
        self,
        spec: LaunchSpec,
        transport: Transport,
        coordinator: str | None,
        engine_side: tuple[str, str] | None,
    ) -> None:
        topology, release = spec.topology, spec.release
        http_path, http = self._listen(transport, "http")
        input_address, output_address = (
            transport.endpoint(f"front-{way}") for way in ("in", "out")
        )
        data_plane: tuple[str | int, str | int] = (input_address, output_address)
        self.grpc: str | None = None
        grpc = None
        if at_least(release, LISTENERS_SINCE):
            data_plane = (self._listen_at(input_address), self._listen_at(output_address))
            grpc_path, grpc = self._listen(transport, "grpc")
            self.grpc = f"unix:{grpc_path}"
        self.http = f"unix:{http_path}"
        self.inherited: Sequence[int] = tuple(each.fileno() for each in self._listeners)
        sizes = sizes_of(topology)
        self.options = BootstrapOptions(
            model=self.model,
            engines=sizes.engine_count,
            http=http,
            input=data_plane[0],
            output=data_plane[1],
            start_index=sizes.engine_start_index,
            grpc=grpc,
            coordinator=coordinator,
            data_parallel_size=sizes.data_parallel_size if at_least(release, SIZE_SINCE) else None,
            ready_timeout_s=topology.config.ready_timeout_s,
            shutdown_timeout_s=spec.shutdown_timeout_s,
        )
        try:
            self.command = bootstrap_command(spec.binary, release, self.options, spec.arguments)
        except ValueError as error:
            self.release()
            raise TargetError(str(error)) from error
        back = engine_side or (None, None)
        self.addresses = JoinAddresses(
            input=input_address,
            output=output_address,
            coordinator_input=back[0],
            coordinator_output=back[1],
        )

    def _listen(self, transport: Transport, name: str) -> tuple[Path, int]:
        endpoint = transport.endpoint(name)
        return Path(endpoint.removeprefix(_SCHEME)), self._listen_at(endpoint)

    def _listen_at(self, endpoint: str) -> int:
        if not endpoint.startswith(_SCHEME):
            msg = f"{endpoint} is no Unix socket, which a bootstrapped frontend needs here"
            raise TargetError(msg)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listeners.append(listener)
        listener.bind(endpoint.removeprefix(_SCHEME))
        listener.listen(_BACKLOG)
        # Its async runtime expects sockets that do not block.
        listener.setblocking(False)
        return listener.fileno()

    def started(self) -> None:
        """Close our copies: as long as they are open, nobody notices the end of the process."""
        self.release()

    def release(self) -> None:
        """Close the listeners; the transport removes their files with its folder."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
