"""What happened in a recorded session, in the terms of a scenario: requests, calls, deaths.

Reads the messages of one story in their order. What cannot be said in a scenario is collected as
notes, each once, so that nothing is left out in silence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from client.protocol.codec import Codec, CodecError
from client.protocol.messages import (
    Abort,
    Add,
    EngineCoreOutput,
    EngineDead,
    Init,
    ReadyResponse,
    RequestBatch,
    StartDpWave,
    StartWave,
    Unclassified,
    UtilityCall,
    UtilityReply,
    WaveComplete,
)
from client.protocol.profiles import Profile
from harness.capture.explain import decode
from harness.capture.kinds import UNKNOWN, kind_of_frame
from harness.capture.normal import is_fence_call
from harness.capture.recording import Frame
from harness.recording.happenings import (
    ABORT,
    CALL,
    DEATH,
    END,
    REPLIED,
    UTILITY,
    Answer,
    Call,
    Request,
    Session,
)
from mock_engines.lockstep.elastic import METHODS as ELASTIC_METHODS
from mock_engines.tokens import caller_id


def read_session(frames: Sequence[Frame], profile: Profile) -> Session:
    """Read what happened."""
    reader = _Reader(profile)
    for frame in frames:
        reader.take(frame)
    found = reader.session
    # A call may have looked answered before all engines had got it.
    found.moments = [one for one in found.moments if one[0] != REPLIED or one[1].over]
    found.ranks.sort()
    return found


class _Reader:
    def __init__(self, profile: Profile) -> None:
        self.session = Session(profile)
        self._codec = Codec(profile)
        self._live: dict[tuple[int, str], Request] = {}
        self._asked: dict[tuple[int, int, int], Call] = {}
        self._names: Counter[str] = Counter()
        self._passed_over: set[int] = set()

    def take(self, frame: Frame) -> None:
        session = self.session
        if frame.engine >= 0 and frame.engine not in session.ranks:
            session.ranks.append(frame.engine)
        if frame.socket.startswith("coordinator"):
            session.coordinator = True
        kind = kind_of_frame(frame)
        if kind.name == UNKNOWN:
            session.notes[f"a message that nobody knows on the socket {frame.socket}"] += 1
            return
        if kind.body is None and kind.name != "dead":
            return
        try:
            message = decode(kind.name, frame.frames, session.profile)
        except CodecError as error:
            session.notes[f"a message ({kind.title}) that {session.profile.release} refuses:"
                          f" {error}"] += 1  # fmt: skip
            return
        self._message(frame.engine, message)

    def _message(self, engine: int, message: Any) -> None:
        session = self.session
        match message:
            case Init():
                session.inits[engine] = message
            case ReadyResponse():
                session.ready[engine] = message
            case Add():
                self._add(engine, message)
            case Abort():
                self._abort(engine, message)
            case UtilityCall():
                self._utility(engine, message)
            case RequestBatch():
                self._batch(engine, message)
            case UtilityReply():
                self._reply(engine, message)
            case EngineDead():
                # Every frontend is told.
                if (DEATH, engine) not in session.moments:
                    session.moments.append((DEATH, engine))
            case StartDpWave():
                session.notes["START_DP_WAVE, which comes of itself"] += 1
            case WaveComplete() | StartWave():
                session.notes["a wave notice, which comes of itself"] += 1
            case Unclassified():
                session.notes["outputs of no known class"] += 1

    # --- requests ---------------------------------------------------------------------------

    def _add(self, engine: int, message: Add) -> None:
        asked = message.request
        self.session.clients.add(asked.client_index)
        request = Request(self._name(asked.external_req_id or asked.request_id), engine, message)
        self._live[engine, asked.request_id] = request
        self.session.requests.append(request)
        self.session.moments.append((CALL, request))

    def _name(self, request_id: str) -> str:
        """A name for the scenario: the caller's own id if it reads well."""
        name = caller_id(request_id)
        readable = _NAME.fullmatch(name) is not None and name.count("-") <= DASHES_MAX
        if not readable:
            name = "request"
            self._names[name] += 1
            return f"{name}-{self._names[name]}"
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}-again-{self._names[name]}"

    def _abort(self, engine: int, message: Abort) -> None:
        for request_id in message.request_ids:
            request = self._live.get((engine, request_id))
            if request is None:
                self.session.notes["an ABORT of a request that this engine never had"] += 1
            elif request.over:
                self.session.notes["an ABORT of a request that had ended"] += 1
            elif request.aborted_after is None:
                request.aborted_after = len(request.chunks)
                self.session.moments.append((ABORT, request))

    def _batch(self, engine: int, message: RequestBatch) -> None:
        if message.scheduler_stats is not None:
            self.session.notes["scheduler stats, which mock engines send only if told"] += 1
        for row in message.outputs:
            request = self._find(engine, row.request_id)
            if request is None:
                self.session.notes["an output of a request that this engine never had"] += 1
            else:
                self._row(request, row)
        for request_id in message.finished_requests or ():
            request = self._find(engine, request_id)
            if request is not None and not request.over:
                request.said_finished = True
                self.session.moments.append((END, request))

    def _find(self, engine: int, request_id: str) -> Request | None:
        if engine >= 0:
            return self._live.get((engine, request_id))
        found = [one for (_, name), one in self._live.items() if name == request_id]
        return found[-1] if found else None

    def _row(self, request: Request, row: EngineCoreOutput) -> None:
        if request.over:
            self.session.notes["an output of a request that had ended"] += 1
            return
        if request.aborted_after is not None:
            if row.finish_reason is None:
                self.session.notes["an output that crossed with the ABORT of its request"] += 1
                return
        else:
            request.chunks.append(len(row.new_token_ids))
        if row.new_logprobs is not None or row.new_prompt_logprobs_tensors is not None:
            self.session.notes["an output with logprobs, which are left out"] += 1
        if row.pooling_output is not None:
            self.session.notes["an output of pooling, which is left out"] += 1
        request.last = row
        if row.finish_reason is not None:
            request.end = row.finish_reason.name.lower()
            request.stop_reason = row.stop_reason
            self.session.moments.append((END, request))

    # --- calls ------------------------------------------------------------------------------

    def _utility(self, engine: int, message: UtilityCall) -> None:
        if is_fence_call(message):
            self._passed_over.add(message.call_id)
            return
        if message.method in ELASTIC_METHODS:
            self.session.notes["a change of the number of engines, and all that came of it"] += 1
            self._passed_over.add(message.call_id)
            return
        self.session.clients.add(message.client_index)
        args = tuple(message.args)
        recent = self.session.calls[-OPEN_CALLS_MAX:]
        call = next((one for one in recent if _joins(one, engine, message, args)), None)
        if call is None:
            self._names[message.method] += 1
            name = f"{message.method}-{self._names[message.method]}"
            call = Call(name, message.method, args, message.client_index)
            self.session.calls.append(call)
            self.session.moments.append((UTILITY, call))
        call.ids[engine] = message.call_id
        self._asked[engine, message.client_index, message.call_id] = call

    def _reply(self, engine: int, message: UtilityReply) -> None:
        output = message.output
        if output.call_id in self._passed_over:
            return
        found = next((call for (rank, _, number), call in self._asked.items()
                      if number == output.call_id and engine in (rank, -1)), None)  # fmt: skip
        if found is None:
            self.session.notes["an answer to a call that nobody made"] += 1
            return
        rank = engine if engine >= 0 else next(
            rank for rank, number in found.ids.items() if number == output.call_id
        )  # fmt: skip
        if rank in found.answers:
            self.session.notes["a second answer to one call"] += 1
            return
        found.answers[rank] = Answer(output.value, output.failure_message)
        if found.over:
            moments = self.session.moments
            moments[:] = [one for one in moments if not (one[0] == REPLIED and one[1] is found)]
            moments.append((REPLIED, found))


def _joins(call: Call, engine: int, message: UtilityCall, args: tuple[Any, ...]) -> bool:
    """Whether this is the part of a fan-out that goes to another engine.

    Fan-outs of the Rust client have ids in a row; others are told by what is still open.
    """
    same = call.method == message.method and call.args == args
    if not same or call.client_index != message.client_index or engine in call.ids:
        return False
    near = any(abs(number - message.call_id) <= len(call.ids) for number in call.ids.values())
    return near or not call.over


_NAME = re.compile(r"[\w.:-]{1,32}", re.ASCII)
"""Longer ids are no names that anybody chose."""
DASHES_MAX = 3
"""A UUID has four."""
OPEN_CALLS_MAX = 64
"""So many latest calls are looked at for the other parts of a fan-out."""
