"""The gRPC side: which services a release has, and how calls become statuses.

A caller who cancels a call cancels the task that serves it, as in the real frontend.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from client.protocol.profiles import Profile
from harness.reference_frontend.grpc_control import Control, Health
from harness.reference_frontend.grpc_generate import Generate, Method, Status
from harness.reference_frontend.grpc_messages import HEALTH_PACKAGE, PACKAGE, messages
from harness.reference_frontend.load import Load
from harness.reference_frontend.log import Bare, Log
from harness.reference_frontend.texts import since

INTERNAL_TEXT = "internal error of the reference frontend"
_SPLIT = "0.27"
"""First release with ``Inference``, ``Control`` and health instead of ``Generate``."""


class GrpcServer:
    """Serves gRPC for one client."""

    def __init__(
        self,
        profile: Profile,
        generate: Generate,
        control: Control,
        health: Health,
        load: Load,
        log: Log,
    ) -> None:
        self._load = load
        self._log = log
        self._server = grpc.aio.server(
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 64 << 20)]
        )
        name = f"{PACKAGE}.{'Inference' if since(profile, _SPLIT) else 'Generate'}"
        self._add(
            name,
            {
                "Generate": self._unary(generate.unary, "GenerateRequest"),
                "GenerateStream": self._stream(generate.stream, "GenerateRequest"),
            },
        )
        if since(profile, _SPLIT):
            known = control.methods().items()
            handlers = {each: self._unary(method, wants) for each, (method, wants) in known}
            self._add(f"{PACKAGE}.Control", handlers)
            self._add(
                f"{HEALTH_PACKAGE}.Health",
                {
                    "Check": self._unary(health.check, "HealthCheckRequest"),
                    "Watch": self._stream(health.watch, "HealthCheckRequest", counted=False),
                },
            )

    def _add(self, service: str, handlers: dict[str, Any]) -> None:
        generic = grpc.method_handlers_generic_handler(service, handlers)
        self._server.add_generic_rpc_handlers((generic,))

    def _unary(self, method: Method, wants: str) -> Any:
        async def handler(request: Any, context: Any) -> Any:
            with self._load.call():
                try:
                    return await method(_read(wants, request), context)
                except Status as status:
                    await context.abort(status.code, status.text)
                except Exception as error:  # noqa: BLE001 - shown below, never hidden
                    await self._fault(error, context)

        return grpc.unary_unary_rpc_method_handler(
            handler,
            response_serializer=_serialize,
        )

    def _stream(self, method: Method, wants: str, *, counted: bool = True) -> Any:
        async def serve(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                async for response in method(_read(wants, request), context):
                    yield response
            except Status as status:
                await context.abort(status.code, status.text)
            except Exception as error:  # noqa: BLE001 - shown below, never hidden
                await self._fault(error, context)

        async def handler(request: Any, context: Any) -> AsyncIterator[Any]:
            if not counted:
                async for response in serve(request, context):
                    yield response
                return
            with self._load.call():
                async for response in serve(request, context):
                    yield response

        return grpc.unary_stream_rpc_method_handler(
            handler,
            response_serializer=_serialize,
        )

    async def _fault(self, error: Exception, context: Any) -> None:
        shown = "".join(traceback.format_exception(error))
        self._log("error", "a call failed by a fault of this frontend", error=Bare(shown))
        await context.abort(grpc.StatusCode.INTERNAL, INTERNAL_TEXT)

    async def start(self, address: str) -> None:
        """Listen. Raises ``OSError`` if the address cannot be had."""
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            msg = f"gRPC cannot listen on {address}; is the port in use? ({error})"
            raise OSError(msg) from error
        if port == 0:
            msg = f"gRPC cannot listen on {address}; is the port in use?"
            raise OSError(msg)
        await self._server.start()

    async def stop(self, grace_s: float | None) -> None:
        """Take no new call; those under way end within ``grace_s`` or are cut."""
        await self._server.stop(grace_s)


def _read(wants: str, body: bytes) -> Any:
    """Read a request. The library's own hook would answer UNKNOWN, which says nothing.

    Raises:
        Status: the bytes are no such message; with the code that the real frontend has.
    """
    try:
        return messages()[wants].FromString(body)
    except DecodeError as error:
        text = f"failed to decode Protobuf message: {error}"
        raise Status(grpc.StatusCode.INTERNAL, text) from error


def _serialize(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
