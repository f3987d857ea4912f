"""A reference frontend in a process, mock engines, and raw HTTP and gRPC callers, for one test."""

from __future__ import annotations

import signal

import httpx
import pytest

from client.aio import with_deadline
from harness.reference_frontend.grpc_messages import messages
from harness.scenario.model import Topology
from harness.targets.vllm_rs.http_api import HttpApi
from harness.targets.vllm_rs.launch import LaunchSpec
from harness.targets.vllm_rs.life import ProcessLife
from harness.targets.vllm_rs.reference import reference_arguments, reference_program
from mock_engines.events import AddSeen
from tests.support.lab import TIMEOUT_S, EventLab, play_story


class Lab(EventLab):
    """One frontend, its engines, and every event so far."""

    def __init__(self, release, engines, topology, mutant, arguments, shutdown_timeout_s):
        super().__init__(release, Topology.model_validate(topology), engines)
        self.release = release
        spec = LaunchSpec(
            reference_program(),
            release,
            self.topology,
            (*reference_arguments(release, mutant), *arguments),
            shutdown_timeout_s,
        )
        self.life = ProcessLife(
            spec,
            profile=self.profile,
            emit=self.emit,
            transport=self.transport,
            log_level="all",
        )
        self.http = None
        self.channel = None

    async def prepare(self):
        await self.life.prepare()
        self.join(self.life.addresses, waves="auto")
        self.http = httpx.AsyncClient(base_url=self.life.http, timeout=TIMEOUT_S, trust_env=False)

    async def start(self):
        await self.prepare()
        self.cluster.start()
        await self.life.start(HttpApi(self.life.http, self.life.model))
        await with_deadline(self.cluster.joined(), TIMEOUT_S)

    @property
    def model(self):
        return self.life.model

    def ask(self, **more):
        """Body of a completion."""
        return {
            "model": self.model,
            "prompt": [97, 98],
            "max_tokens": 3,
            "return_token_ids": True,
            **more,
        }

    async def complete(self, headers=None, **more):
        return await self.http.post("/v1/completions", json=self.ask(**more), headers=headers)

    async def until_line(self, pattern):
        return (await self.until(lambda e: getattr(e, "pattern", "") == pattern))[0]

    async def until_add(self, count=1):
        return await self.until(lambda e: isinstance(e, AddSeen), count)

    def lines(self, pattern):
        return [event for event in self.events if getattr(event, "pattern", "") == pattern]

    async def rpc(self, method, request=b"", *, answer=None, metadata=(), stream=False):
        """One gRPC call; the answer's bytes, or messages if ``answer`` names one."""
        import grpc

        if self.channel is None:
            self.channel = grpc.aio.insecure_channel(
                self.life.grpc, options=[("grpc.use_local_subchannel_pool", 1)]
            )
        read = bytes if answer is None else messages()[answer].FromString
        kind = self.channel.unary_stream if stream else self.channel.unary_unary
        call = kind(method, request_serializer=bytes, response_deserializer=read)
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        if stream:
            return [each async for each in call(raw, metadata=metadata)]
        return await call(raw, metadata=metadata)

    async def terminate(self):
        """SIGTERM; the exit code."""
        return await self.life.exit_code() if await self._signal() else None

    async def _signal(self):
        await self.life.signal(signal.SIGTERM.name.removeprefix("SIG"))
        return True

    async def stop(self):
        await self.end(self._close_callers, self.life.stop)

    async def _close_callers(self):
        if self.channel is not None:
            await self.channel.close()
        if self.http is not None:
            await self.http.aclose()


@pytest.fixture
def serve():
    """Return ``serve(story, release=…, engines=…, …)``, which runs ``await story(lab)``."""

    def run(
        story,
        *,
        release="0.33.0",
        engines=(),
        mutant=None,
        arguments=(),
        start=True,
        shutdown_timeout_s=0.0,
        **topology,
    ):
        def make():
            return Lab(release, engines, topology, mutant, arguments, shutdown_timeout_s)

        return play_story(make, story, start=start)

    return run
