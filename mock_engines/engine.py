"""One mock engine without its sockets: requests, utility state, own wave, rules. Pure.

The endpoint tells it what arrives and gets a ``Plan``; the behaviours then ask it for what a
well-behaved engine would do next. Whatever changes its state calls ``on_change``, so that the
shell can wake plans that wait for a state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from client.protocol.ids import FENCE_METHOD, RequestId, Wave
from client.protocol.messages import (
    EngineCoreOutput,
    EngineCoreRequest,
    FinishReason,
    RequestError,
    StartDpWave,
    UtilityCall,
)
from client.protocol.profiles import Profile
from mock_engines import utilities
from mock_engines.behaviours.model import Rule
from mock_engines.events import MockEvent
from mock_engines.lockstep.elastic import Elastic
from mock_engines.matching import Message, Plan, RuleBook, names_of
from mock_engines.requests import MockRequest
from mock_engines.tokens import caller_id, tokens_for

KEPT_REQUESTS_MAX = 1024
"""How many ended requests an engine remembers, so that scripts can still name them."""
DEFAULT_MAX_TOKENS = 16
"""What vLLM generates when a request does not say (``SamplingParams.max_tokens``)."""


def is_fence(call: UtilityCall) -> bool:
    """Whether the call is the harness's fence, which no rule sees and no event shows."""
    if call.method == FENCE_METHOD:
        return True
    return call.method == "collective_rpc" and bool(call.args) and call.args[0] == FENCE_METHOD


class MockEngine:
    """State and decisions of one engine."""

    def __init__(
        self,
        rank: int,
        profile: Profile,
        rules: RuleBook | Sequence[Rule] = (),
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.rank = rank
        self.profile = profile
        self.utility = utilities.UtilityState(elastic=Elastic(rank))
        self.wave = 0
        """Wave by this engine's own view; with ``waves: auto`` the cluster's view counts."""
        self._rules = rules if isinstance(rules, RuleBook) else RuleBook(rules)
        self._active: dict[str, MockRequest] = {}
        self._ended: dict[str, MockRequest] = {}
        self._on_change = on_change

    # --- what arrives -----------------------------------------------------------------------

    def match(self, request: EngineCoreRequest, seen: MockEvent | None = None) -> Plan:
        """Choose the plan for an ADD. Nothing else changes yet; see ``accept``.

        ``seen``, here and below: the event that the message makes.
        """
        names = names_of(request.request_id, request.external_req_id)
        return self._rules.plan(Message("add"), names, seen)

    def accept(self, request: EngineCoreRequest, plan: Plan) -> Plan:
        """Take the request of an ADD up, unless the plan ignores it.

        Returns the plan with the request in its message; one with the same id that is still
        active is replaced.
        """
        if plan.ignores:
            return plan
        accepted = MockRequest(
            request_id=request.request_id,
            external_id=request.external_req_id,
            client_index=request.client_index,
            max_tokens=_max_tokens(request),
            abort_immediately=request.abort_immediately,
            wave=request.current_wave,
        )
        self.wave = max(self.wave, request.current_wave)
        self._ended.pop(request.request_id, None)
        self._active.pop(request.request_id, None)
        self._active[request.request_id] = accepted
        self._on_change()
        return Plan(Message("add", request=accepted), plan.actions, plan.rule)

    def abort(self, request_ids: Sequence[str], seen: MockEvent | None = None) -> Plan:
        """Take an ABORT; nothing ends before the plan says so."""
        ids = tuple(request_ids)
        names = [name for request_id in ids for name in self.names(request_id)]
        return self._rules.plan(Message("abort", request_ids=ids), names, seen)

    def utility_call(self, call: UtilityCall, seen: MockEvent | None = None) -> Plan:
        """Take a UTILITY that is no fence."""
        return self._rules.plan(Message("utility", call=call), seen=seen)

    def start_wave(self, start: StartDpWave, seen: MockEvent | None = None) -> Plan:
        """Take a START_DP_WAVE."""
        return self._rules.plan(Message("start_wave", start=start), seen=seen)

    # --- requests ---------------------------------------------------------------------------

    def names(self, request_id: str) -> tuple[str, ...]:
        """Return the names of a request, active or ended; an unknown one has its own only."""
        known = self._active.get(request_id) or self._ended.get(request_id)
        return names_of(request_id, known.external_id if known else None)

    def find(self, name: str) -> MockRequest | None:
        """Find a request by any of its names: active ones first, then the last that ended."""
        for table in (self._active, self._ended):
            if name in table:
                return table[name]
            for request in reversed(table.values()):
                if name in names_of(request.request_id, request.external_id):
                    return request
        return None

    def active(self) -> tuple[MockRequest, ...]:
        """Return the unfinished requests, in the order of their arrival."""
        return tuple(self._active.values())

    def is_active(self, request: MockRequest) -> bool:
        """Whether this request, and not a later one with its id, is unfinished."""
        return self._active.get(request.request_id) is request

    def may_step(self, request: MockRequest) -> bool:
        """Whether the scheduler would run it: it is neither frozen nor held back by a pause."""
        paused = self.utility.paused
        return paused is None or (paused == "new" and request.started)

    def begin(self, request: MockRequest) -> None:
        """The scheduler takes the request up; a pause for new ones holds it back no more."""
        if not request.started:
            request.started = True
            self._on_change()

    def finish(self, request: MockRequest) -> None:
        """The request has ended; a later one with the same id is left alone."""
        if not self.is_active(request):
            return
        del self._active[request.request_id]
        self._ended[request.request_id] = request
        if len(self._ended) > KEPT_REQUESTS_MAX:
            del self._ended[next(iter(self._ended))]
        self._on_change()

    def abort_now(self, request_ids: Sequence[str]) -> tuple[str, ...]:
        """End the requests that are active; an unknown id is ignored. Returns those ended."""
        ended = [self._active[name] for name in dict.fromkeys(request_ids) if name in self._active]
        for request in ended:
            self.finish(request)
        return tuple(request.request_id for request in ended)

    def step(
        self,
        request: MockRequest,
        count: int,
        finish: FinishReason | None = None,
        stop_reason: int | str | None = None,
    ) -> EngineCoreOutput:
        """Make the output row of one step, and count its tokens as sent."""
        tokens = tokens_for(request.token_id, start=request.sent, count=count)
        request.sent += count
        return EngineCoreOutput(
            request_id=RequestId(request.request_id),
            new_token_ids=tokens,
            finish_reason=finish,
            stop_reason=stop_reason,
        )

    def rejection(self, request: MockRequest) -> EngineCoreOutput | None:
        """Return the row that refuses a new request under ``pause_generation``, if it is so.

        Source: vLLM ``v1/engine/core.py`` of 0.33 (``engine_paused``, retryable).
        """
        if not self.utility.rejects or request.started:
            return None
        text = "engine is paused and takes no new requests"
        return EngineCoreOutput(
            request_id=RequestId(request.request_id),
            new_token_ids=(),
            finish_reason=FinishReason.ERROR,
            error=RequestError("engine_paused", text, retryable=True),
        )

    @property
    def unfinished(self) -> bool:
        """Whether the scheduler has a request that it would run."""
        return any(self.may_step(request) for request in self._active.values())

    @property
    def drained(self) -> bool:
        """Whether no request that was taken up is left."""
        return not any(request.started for request in self._active.values())

    # --- utilities and waves ----------------------------------------------------------------

    def apply(self, call: UtilityCall) -> utilities.Outcome:
        """Run a utility method. Raises ``UtilityFailedError``, with the state unchanged."""
        outcome = utilities.call(self.utility, self.profile, call.method, call.args)
        if outcome.changed:
            self._on_change()
        return outcome

    def apply_start_wave(self, start: StartDpWave) -> None:
        """Take over the wave of a START_DP_WAVE that is not stale and does not exclude us."""
        if start.exclude_engine_index != self.rank:
            self.wave = max(self.wave, start.wave)

    def completed(self, wave: int) -> None:
        """A ``wave_complete`` was sent by script; the engine itself goes on to the next wave."""
        self.wave = max(self.wave, Wave(wave + 1))

    def view(self) -> dict[str, Any]:
        """Return the state as plain values, for scripts and reports."""
        requests = self._active.values()
        return {
            "requests": [caller_id(r.token_id) for r in requests],
            "request_ids": [r.request_id for r in requests],
            "wave": self.wave,
            **self.utility.view(),
        }


def _max_tokens(request: EngineCoreRequest) -> int:
    params = request.sampling_params
    wanted = params.get("max_tokens") if params is not None else None
    return wanted if isinstance(wanted, int) and wanted > 0 else DEFAULT_MAX_TOKENS
