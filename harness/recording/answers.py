"""What engines answered in a session, as rules for mock engines.

What a well-behaved mock engine does of itself needs no rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from client.protocol.messages import RequestError
from client.protocol.profiles import Profile
from harness.recording.happenings import Answer, Call, Request, Session
from mock_engines import utilities

Rule = dict[str, Any]


def sayable(value: Any) -> bool:
    """Whether a value can stand in a scenario: what JSON has, and finite."""
    if value is None or isinstance(value, bool | str):
        return True
    if isinstance(value, int):
        return abs(value) < 1 << 63
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list | tuple):
        return all(sayable(item) for item in value)
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and sayable(item) for key, item in value.items())
    return False


def plain_value(value: Any) -> Any:
    """Lists for tuples, dicts for mappings."""
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain_value(item) for key, item in value.items()}
    return value


# --- requests -------------------------------------------------------------------------------


def max_tokens_of(request: Request) -> int | None:
    """How many tokens the caller asked for at most, if it said so."""
    params = request.add.request.sampling_params or {}
    asked = params.get("max_tokens")
    return asked if isinstance(asked, int) and not isinstance(asked, bool) and asked > 0 else None


def rows_of(request: Request) -> tuple[int, int, bool]:
    """Tokens in each row, rows with tokens, and whether that is exactly what was seen."""
    sizes = [size for size in request.chunks if size]
    if not sizes:
        return 1, 0, True
    chunk = sizes[0]
    exact = all(size == chunk for size in sizes[:-1]) and sizes[-1] <= chunk
    if not exact:
        chunk = max(1, round(request.tokens / len(sizes)))
    return chunk, -(-request.tokens // chunk), exact


def gate_of(request: Request) -> str | None:
    """The gate at which an engine holds this request, until the story is as far."""
    ended_by_engine = request.end == "abort" and request.aborted_after is None
    if request.aborted_after is None and not ended_by_engine:
        return None
    return f"{request.name} goes on"


def rule_of(request: Request, session: Session, *, died: bool) -> Rule | None:
    """What the engine of a request does with it; ``None``: what it does of itself."""
    chunk, _, exact = rows_of(request)
    if not exact:
        session.notes["the sizes of uneven rows, which are even here"] += 1
    stream: dict[str, Any] = {"tokens": request.tokens}
    if chunk != 1:
        stream["chunk"] = chunk
    gate = gate_of(request)
    if gate is not None:
        stream["pause_at"], stream["gate"] = request.tokens, gate
        if request.aborted_after is not None:
            stream["tokens"] = max(request.tokens + 1, max_tokens_of(request) or 0)
        else:
            stream["finish"] = "abort"
    elif request.said_finished:
        do = [{"stream": {**stream, "finish": None}}] if request.tokens else []
        return {"on": "add", "request": request.name, "do": [*do, {"finish_only": True}]}
    elif request.end is None:
        if not died:
            session.notes["the end of a request that was still running at the end"] += 1
            return None
        stream["finish"] = None
    elif request.end != "length":
        stream["finish"] = request.end
    _details(stream, request, session)
    if stream == {"tokens": max_tokens_of(request)}:
        return None
    return {"on": "add", "request": request.name, "do": {"stream": stream}}


def _details(stream: dict[str, Any], request: Request, session: Session) -> None:
    """What the last row said besides."""
    if request.end is None or request.last is None or "gate" in stream:
        return
    if request.stop_reason is not None:
        stream["stop_reason"] = request.stop_reason
    if (params := request.last.kv_transfer_params) is not None:
        if sayable(params):
            stream["kv_transfer_params"] = plain_value(params)
        else:
            session.notes["transfer parameters that no scenario can say"] += 1
    if isinstance(request.last.error, RequestError) and request.end == "error":
        stream["error"] = msgspec.structs.asdict(request.last.error)


# --- calls ----------------------------------------------------------------------------------


class Rules:
    """Rules for utility calls, engine by engine.

    Each engine has a model of what a well-behaved one would answer; where a real answer differs
    it is given. A rule with ``nth`` counts what no earlier rule took.
    """

    def __init__(self, session: Session, dead: Iterable[int]) -> None:
        self._session = session
        self._dead = set(dead)
        self._states = {rank: utilities.UtilityState() for rank in session.ranks}
        self._met: dict[tuple[int, str], int] = {}
        self._taken: dict[tuple[int, str], int] = {}
        self.of: dict[int, list[Rule]] = {rank: [] for rank in session.ranks}
        self.open: dict[str, None] = {}
        """Calls that never end."""
        self.unusual: dict[str, None] = {}
        """Calls with a result that no well-behaved engine gives; an API may refuse it."""

    def take(self, call: Call) -> None:
        """Add what is needed for one call."""
        for rank in self._session.ranks:
            key = (rank, call.method)
            self._met[key] = self._met.get(key, 0) + 1
            expected = _expected(self._states[rank], self._session.profile, call)
            if rank not in call.ids:
                self._session.notes["a call that reached some engines only, and all here"] += 1
                continue
            do = self._do(call, rank, expected)
            if do is None:
                continue
            nth = self._met[key] - self._taken.get(key, 0)
            self._taken[key] = self._taken.get(key, 0) + 1
            self.of[rank].append({"on": "utility", "method": call.method, "nth": nth, "do": do})

    def _do(self, call: Call, rank: int, expected: Answer) -> Any:
        answer = call.answers.get(rank)
        if answer is None:
            if self._dead:
                return {"drop": True}
            self.open.setdefault(call.name)
            self._session.notes["the answer to a call that had none at the end"] += 1
            return {"hang": True}
        if answer.failure is not None:
            same = expected.failure == answer.failure
            return None if same else {"fail": answer.failure}
        if expected.failure is None and _equal(expected.value, answer.value):
            return None
        if not sayable(answer.value):
            self._session.notes["an answer that no scenario can say"] += 1
            return None
        self.unusual.setdefault(call.name)
        reply = {"reply": plain_value(answer.value)}
        return reply if expected.failure is not None else [{"apply": True}, reply]


def _expected(state: utilities.UtilityState, profile: Profile, call: Call) -> Answer:
    try:
        return Answer(utilities.call(state, profile, call.method, call.args).value)
    except utilities.UtilityFailedError as error:
        return Answer(failure=str(error))


def _equal(one: Any, other: Any) -> bool:
    """Equal, also in type: true is not 1."""
    one, other = plain_value(one), plain_value(other)
    return type(one) is type(other) and one == other
