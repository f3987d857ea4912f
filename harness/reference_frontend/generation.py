"""Generations of all surfaces: ids, open requests, and the two ways to leave one.

Internal ids get a suffix, so that two requests of one external id do not meet in the client. The
suffix counts instead of being random: ids here are deterministic.

Source: protocol page, sections 6.4 and 8.3.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from client.engine_client import EngineClient
from client.output_stream import OutputStream
from client.protocol.ids import RequestId
from client.protocol.messages import EngineCoreRequest
from client.protocol.profiles import Profile
from harness.reference_frontend.clock import now
from harness.reference_frontend.requests import Ask
from harness.reference_frontend.texts import since


class Generation:
    """Submits requests to one client and knows which are open."""

    def __init__(self, client: EngineClient, profile: Profile) -> None:
        self._client = client
        self._profile = profile
        self._count = 0
        self._open: dict[str, dict[RequestId, None]] = {}

    def _number(self) -> str:
        self._count += 1
        return f"{self._count:08x}"

    def external_id(self, given: str | None, prefix: str) -> str:
        """Return the id that callers and engines see."""
        return prefix + (given or self._number())

    @contextlib.asynccontextmanager
    async def stream(self, ask: Ask) -> AsyncIterator[OutputStream]:
        """Submit a request; leaving early aborts it.

        Raises:
            ClientError: it was not taken.
        """
        internal = RequestId(f"{ask.external_id}-{self._number()}")
        newer = since(self._profile, "0.31")
        request = EngineCoreRequest(
            request_id=internal,
            prompt_token_ids=ask.prompt,
            sampling_params=ask.sampling,
            arrival_time=now(),
            lora_request=ask.lora,
            data_parallel_rank=ask.rank,
            priority=ask.priority,
            external_req_id=ask.external_id,
            reasoning_parser_kwargs={"chat_template_kwargs": {}} if newer else None,
        )
        alike = self._open.setdefault(ask.external_id, {})
        alike[internal] = None
        try:
            async with await self._client.call(request) as outputs:
                yield outputs
        finally:
            del alike[internal]
            if not alike:
                self._open.pop(ask.external_id, None)

    async def abort(self, external_ids: Sequence[str] | None) -> None:
        """Abort open requests by external id; ``None``: all of them. Raises ``ClientError``."""
        names = list(self._open) if external_ids is None else external_ids
        found = [internal for name in names for internal in self._open.get(name, ())]
        await self._client.abort(found)
