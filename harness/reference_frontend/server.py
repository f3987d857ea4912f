"""One run of the frontend: connect the client, listen, serve until a signal, drain, end.

Exit codes are those of the real one: 0 after SIGTERM or SIGINT, also when the client has failed;
1 when startup failed.

Source: protocol page, sections 3 and 16.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import Any

from client.aio import DeadlineExceeded, resolve, with_deadline
from client.components import Components
from client.config import ClientConfig, HandshakeOwner, InProcessCoordinator
from client.engine_client import EngineClient
from client.errors import ClientError
from client.transports.sockets import ZmqTransport
from harness.reference_frontend.adapters import Adapters
from harness.reference_frontend.admin import Admin
from harness.reference_frontend.client_log import ClientLog
from harness.reference_frontend.generation import Generation
from harness.reference_frontend.http_server import HttpServer
from harness.reference_frontend.info import Info
from harness.reference_frontend.load import Load
from harness.reference_frontend.log import CLIENT, Bare, Log
from harness.reference_frontend.metrics import Metrics
from harness.reference_frontend.options import ServeSettings
from harness.reference_frontend.ports import Port, PortTaken
from harness.reference_frontend.texts import client_error_text, since
from harness.reference_frontend.watch import Watch

_CUT_GRACE_S = 5.0
"""How long gRPC waits beyond the drain time; by then we have cut its calls ourselves."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(settings: ServeSettings) -> int:
    """Serve until a signal; return the exit code."""
    return asyncio.run(Server(settings).serve())


class StartFailed(Exception):  # noqa: N818  (its text is what the user reads)
    """Startup failed: what, and why."""

    def __init__(self, what: str, why: str) -> None:
        self.what = what
        self.why = why
        super().__init__(f"{what}: {why}")


class Server:
    """One run."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._profile = settings.profile
        self._log = Log(settings.profile, settings.log_filter)
        self._load = Load()
        self._watch = Watch()
        self._metrics = Metrics(settings.names[0], self._watch)
        self._connecting: asyncio.Task[EngineClient] | None = None
        self._stopped: asyncio.Future[None] | None = None
        self._client: EngineClient | None = None
        self._http: HttpServer | None = None
        self._port: Port | None = None
        self._grpc: Any = None
        self._health: Any = None

    async def serve(self) -> int:
        """Start, serve, end; return the exit code."""
        loop = asyncio.get_running_loop()
        self._stopped = loop.create_future()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        transport = ZmqTransport(scheme="tcp")
        try:
            await self._start(transport)
            await self._stopped
            await self._drain()
        except StartFailed as error:
            self._tell_failure(error)
            return 1
        finally:
            await self._close()
            transport.close()
        return 0

    def _on_signal(self, number: int) -> None:
        assert self._stopped is not None
        if self._stopped.done():
            return  # as upstream: a second signal has no effect
        name = signal.Signals(number).name
        self._log("info", f"received shutdown signal ({name}), shutting down...")
        resolve(self._stopped)
        if self._connecting is not None:
            self._connecting.cancel()

    # --- start ---

    async def _start(self, transport: ZmqTransport) -> None:
        http = self._take_ports()
        self._client = await self._connect(transport)
        if self._client is None:
            return
        client, settings, profile = self._client, self._settings, self._profile
        self._log(
            "debug",
            "all engines registered on shared input socket",
            engine_count=settings.engine_count,
        )
        self._log("info", "engines connected", engine_count=settings.engine_count)
        generation = Generation(client, profile)
        adapters = Adapters(client, profile, settings.lora_prefixes or ())
        info = Info(settings, client, adapters, self._load, self._metrics)
        admin = Admin(client, profile, generation, adapters)
        self._http = HttpServer(
            settings,
            client,
            generation,
            adapters,
            self._load,
            self._metrics,
            (*info.routes(), *admin.routes()),
            self._log,
        )
        try:
            if settings.grpc_port is not None:
                await self._start_grpc(client, generation, adapters)
            await self._http.start(http.socket)
        except OSError as error:
            msg = "failed to bind a listener"
            raise StartFailed(msg, _reason(error)) from error
        self._log(
            "info",
            "OpenAI server is ready to accept requests"
            if since(profile, "0.27")
            else "starting OpenAI server",
            bind_address=f"{settings.host}:{settings.port}",
            model=settings.model,
        )

    def _take_ports(self) -> Port:
        """Take the ports before engines are waited for. Raises ``StartFailed``.

        That of gRPC is only looked at: its library insists on binding it itself. So is that of
        the handshake, which is the transport's.
        """
        settings = self._settings
        looked_at = [(settings.handshake_host, settings.handshake_port, "--data-parallel-rpc-port")]
        if settings.grpc_port is not None:
            looked_at.append((settings.host, settings.grpc_port, "--grpc-port"))
        try:
            self._port = Port(settings.host, settings.port, "--port")
            for host, port, option in looked_at:
                Port(host, port, option).release()
        except PortTaken as error:
            msg = "failed to bind a listener"
            raise StartFailed(msg, str(error)) from error
        return self._port

    async def _start_grpc(
        self, client: EngineClient, generation: Generation, adapters: Adapters
    ) -> None:
        # gRPC takes a good part of the time of an import, and may not be asked for.
        from harness.reference_frontend.grpc_control import Control, Health
        from harness.reference_frontend.grpc_generate import Generate
        from harness.reference_frontend.grpc_server import GrpcServer

        settings, profile = self._settings, self._profile
        self._health = Health(client)
        self._grpc = GrpcServer(
            profile,
            Generate(settings, client, generation, adapters, self._metrics),
            Control(client, profile, generation),
            self._health,
            self._load,
            self._log,
        )
        address = f"{settings.host}:{settings.grpc_port}"
        await self._grpc.start(address)
        self._log(
            "info",
            "gRPC server is ready to accept requests"
            if since(profile, "0.27")
            else "starting gRPC server",
            addr=Bare(address),
        )

    def _components(self) -> Components:
        components = Components()
        if self._settings.mutant is not None:
            from harness.mutants import find_mutant

            components = find_mutant(self._settings.mutant).components(components)
        return self._watch.over(components)

    async def _connect(self, transport: ZmqTransport) -> EngineClient | None:
        """Run the startup handshake; ``None``: a signal came first. Raises ``StartFailed``."""
        settings = self._settings
        host = settings.handshake_host
        handshake = f"tcp://{host}:{settings.handshake_port}"
        anywhere = f"tcp://{host}:0"
        in_process = settings.in_process_coordinator
        config = ClientConfig(
            profile=self._profile,
            mode=HandshakeOwner(
                handshake_address=handshake,
                input_address=anywhere,
                output_address=anywhere,
                engine_count=settings.engine_count,
                data_parallel_size=settings.engine_count,
                coordinator=InProcessCoordinator(anywhere, anywhere) if in_process else None,
            ),
            ready_timeout_s=settings.ready_timeout_s,
        )
        self._log(
            "info",
            "resolved coordinator mode",
            engine_count=settings.engine_count,
            model_is_moe=settings.moe,
            coordinator_mode=Bare("Some(InProc)" if in_process else "None"),
        )
        self._log(
            "info",
            "waiting for engines to connect",
            engine_count=settings.engine_count,
            handshake_address=handshake,
        )
        self._connecting = asyncio.get_running_loop().create_task(
            EngineClient.connect(
                config,
                transport,
                observer=ClientLog(self._log, self._profile, self._watch, self._on_failed_client),
                components=self._components(),
            ),
            name="connect",
        )
        try:
            return await self._connecting
        except ClientError as error:
            text = client_error_text(error, self._profile)
            msg = "failed to connect to engine core"
            raise StartFailed(msg, text) from error
        except asyncio.CancelledError:
            if self._stopped is None or not self._stopped.done():
                raise
            return None
        finally:
            self._connecting = None

    def _on_failed_client(self) -> None:
        if self._health is not None and since(self._profile, "0.27"):
            self._log("warn", "marking gRPC health services as not serving", target=CLIENT)
        if self._health is not None:
            # The client names its error behind this event; watchers look in a later turn.
            asyncio.get_running_loop().call_soon(self._health.changed)

    def _tell_failure(self, error: StartFailed) -> None:
        """As the release does: a line of the log since 0.27, plain text on stderr before."""
        why = error.why.replace("\n", " ")
        if since(self._profile, "0.27"):
            self._log("error", f"process failed with error: {error.what}")
            sys.stderr.write(f"\nCaused by:\n  {why}\n\n")
        else:
            sys.stderr.write(f"Error: {error.what}\n\nCaused by:\n    {why}\n")
        sys.stderr.flush()

    # --- end ---

    async def _drain(self) -> None:
        """Take nothing new, wait for what is open, cut what is left.

        What is cut is cut for its callers only: engines are told nothing, as upstream. So the
        client is closed before the tasks that serve the callers learn that they are gone.
        """
        if self._client is None or self._http is None:
            return
        limit = self._settings.shutdown_timeout_s
        await self._http.stop_listening()
        stopping: asyncio.Task[None] | None = None
        if self._grpc is not None:
            self._health.close()
            stopping = asyncio.get_running_loop().create_task(
                self._grpc.stop(limit + _CUT_GRACE_S), name="gRPC stop"
            )
        try:
            await with_deadline(self._load.none_open(), limit, name="drain")
        except DeadlineExceeded:
            self._log("warn", "shutdown deadline elapsed; cutting what is open")
            self._http.cut()
        self._log("info", "shutting down engine-core client")
        await self._client.shutdown()
        self._log("info", "engine-core client shut down")
        if stopping is not None:
            await stopping

    async def _close(self) -> None:
        """Release whatever there is, also after a failed start."""
        if self._port is not None:
            self._port.release()
        if self._client is not None:
            await self._client.shutdown()
        if self._http is not None:
            await self._http.close()
        if self._grpc is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._grpc.stop(None)


def _reason(error: OSError) -> str:
    return f"{error.strerror or error} (os error {error.errno})" if error.errno else str(error)
