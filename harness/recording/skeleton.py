"""A scenario out of a recorded session: a skeleton to be made a promise of.

Steps are what callers did, in the order in which it reached the engines; behaviours are how the
engines answered. What could not be carried over stands above, as a comment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from client.protocol.profiles import Profile
from harness.capture.recording import Frame
from harness.recording.answers import (
    Rules,
    gate_of,
    max_tokens_of,
    plain_value,
    rows_of,
    rule_of,
    sayable,
)
from harness.recording.api import api_call
from harness.recording.happenings import (
    ABORT,
    CALL,
    DEATH,
    END,
    REPLIED,
    UTILITY,
    Call,
    Request,
)
from harness.recording.session import read_session
from harness.reports.wording import counted
from harness.scenario.writing import scenario_text

OPERATIONS_MAX = 300
"""Requests and calls of a scenario; nobody reads more."""
MESSAGE_MAX = 200
"""Longest text of a failure, in characters, that is expected again."""
PROMPT_MAX = 128
"""Token ids of a prompt that are carried over."""
REFERENCE = "https://github.com/vllm-project/vllm"
SCHEMA = "schema.json"
TITLE = "A recorded session goes as it went"
PROMISE = (
    "Every request and call of the session ends as it did. (Say here what the story is about.)"
)
_SAID = frozenset({"max_tokens"})


class Skeleton:
    """The scenario of one session.

    Args:
        frames: all messages, in order.
        profile: of the release that they are in.
    """

    def __init__(self, frames: Sequence[Frame], profile: Profile) -> None:
        self._session = read_session(frames, profile)
        self._messages = len(frames)
        self._steps: list[dict[str, Any]] = []
        self._dead: dict[int, None] = {}
        self._known: dict[str, None] = {}
        self._unusual: dict[str, None] = {}
        self.data = self._data()

    @property
    def ranks(self) -> tuple[int, ...]:
        """Engines that took part."""
        return tuple(self._session.ranks)

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return len(self._steps)

    def notes(self) -> list[str]:
        """What was seen and is not in the scenario."""
        return [
            note if count == 1 else f"{note} ({count} times)"
            for note, count in sorted(self._session.notes.items())
        ]

    def text(self, told: Sequence[str]) -> str:
        """The file.

        Args:
            told: lines about the recording.
        """
        comments = [f"yaml-language-server: $schema={SCHEMA}", *told]
        if notes := self.notes():
            comments += ["Not carried over:", *(f"- {note}" for note in notes)]
        comments += [
            "Tokens are the mock engines' own: theirs say which request they belong to.",
            "Where nothing is said, mock engines behave as these engines did.",
        ]
        return scenario_text(self.data, comments)

    # --- parts ------------------------------------------------------------------------------

    def _data(self) -> dict[str, Any]:
        session = self._session
        data: dict[str, Any] = {
            "title": TITLE,
            "promise": PROMISE,
            "refs": [REFERENCE],
            "profiles": f"=={session.profile.release}",
            "topology": self._topology(),
        }
        self._dead = dict.fromkeys(one for word, one in session.moments if word == DEATH)
        operations = self._operations()
        rules = self._rules(operations)
        if any(rules.of.values()):
            data["engines"] = [
                {"engine": rank, "rules": found} for rank, found in rules.of.items() if found
            ]
        self._unusual = rules.unusual
        for word, one in session.moments:
            self._moment(word, one)
        self._expectations()
        data["steps"] = self._steps
        if rules.open:
            data["open_at_end"] = list(rules.open)
        return data

    def _topology(self) -> dict[str, Any]:
        session, ranks = self._session, self._session.ranks or [0]
        found: dict[str, Any] = {"engines": len(ranks)}
        if ranks != list(range(ranks[0], ranks[0] + len(ranks))):
            found = {"ranks": ranks}
        elif ranks[0]:
            found["start_rank"] = ranks[0]
        inits = list(session.inits.values())
        several = max(session.clients, default=0) > 0
        stats = any(init.frontend_stats_publish_address for init in inits)
        bootstrapped = not inits or several or stats
        if bootstrapped:
            found["transport"] = "bootstrapped"
        if session.coordinator:
            found["coordinator"] = "external" if bootstrapped else "in-process"
        if several:
            found["frontends"] = 2
        size = next((one.get("data_parallel_size") for one in session.ready.values()), None)
        if bootstrapped and isinstance(size, int) and max(ranks) < size != len(ranks):
            found["data_parallel_size"] = size
        return found

    def _operations(self) -> list[Request | Call]:
        found = [one for word, one in self._session.moments if word in (CALL, UTILITY)]
        if len(found) > OPERATIONS_MAX:
            left = len(found) - OPERATIONS_MAX
            self._session.notes[
                f"the last {counted(left, 'request or call', 'requests and calls')}"
            ] += 1
        kept = found[:OPERATIONS_MAX]
        self._known = dict.fromkeys(one.name for one in kept)
        return kept

    def _rules(self, operations: Sequence[Request | Call]) -> Rules:
        rules = Rules(self._session, self._dead)
        for one in operations:
            if isinstance(one, Call):
                rules.take(one)
            elif one.engine in rules.of:
                rule = rule_of(one, self._session, died=bool(self._dead))
                if rule is not None:
                    rules.of[one.engine].append(rule)
        return rules

    # --- steps ------------------------------------------------------------------------------

    def _moment(self, word: str, one: Any) -> None:
        if word == DEATH:
            if one in self._session.ranks:
                self._steps.append({"engine": {"engine": one, "do": {"die": "sentinel"}}})
        elif one.name not in self._known:
            return
        elif word == CALL:
            self._steps.append({"call": self._call(one)})
        elif word == UTILITY:
            self._steps.append({"utility": self._utility(one)})
        elif word == ABORT:
            self._abort(one)
        elif word == END and one.aborted_after is None:
            if (gate := gate_of(one)) is not None:
                self._steps.append({"open": gate})
            self._finish(one.name)
        elif word == REPLIED:
            self._finish(one.name)

    def _finish(self, name: str) -> None:
        """Wait for an end; ends in a row share a step."""
        if self._steps and "finish" in self._steps[-1]:
            self._steps[-1]["finish"].append(name)
        else:
            self._steps.append({"finish": [name]})

    def _abort(self, request: Request) -> None:
        _, rows, _ = rows_of(request)
        seen: dict[str, Any] = {"event": "output" if rows else "add", "request": request.name}
        if rows > 1:
            seen["count"] = rows
        self._steps += [{"wait": seen}, {"drop": request.name}, {"fence": True}]
        if (gate := gate_of(request)) is not None:
            self._steps.append({"open": gate})
        if not self._dead:
            counted_once = {"event": "abort", "engine": request.engine, "request": request.name}
            self._steps.append({"expect": {"count": {**counted_once, "at_least": 1}}})

    def _call(self, request: Request) -> dict[str, Any]:
        asked, notes = request.add.request, self._session.notes
        step: dict[str, Any] = {"id": request.name}
        if len(self._session.ranks) > 1:
            step["rank"] = request.engine
            if asked.data_parallel_rank is None:
                notes["that the frontend chose the engine: the step names it"] += 1
        self._frontend(step, asked.client_index)
        prompt = list(asked.prompt_token_ids or ())
        if len(prompt) > PROMPT_MAX:
            notes[f"token ids of a prompt behind the first {PROMPT_MAX}"] += 1
        if prompt:
            step["prompt"] = prompt[:PROMPT_MAX]
        step["max_tokens"] = max_tokens_of(request) or max(1, request.tokens)
        self._parameters(step, request)
        return step

    def _parameters(self, step: dict[str, Any], request: Request) -> None:
        asked, notes = request.add.request, self._session.notes
        params = dict(asked.sampling_params or {})
        extra = params.pop("extra_args", None)
        if isinstance(extra, dict) and sayable(extra.get("kv_transfer_params")):
            if extra.get("kv_transfer_params") is not None:
                step["kv_transfer_params"] = plain_value(extra["kv_transfer_params"])
            extra = {key: value for key, value in extra.items() if key != "kv_transfer_params"}
        if extra:
            notes["extra arguments of a request"] += 1
        if left := sorted(key for key, value in params.items() if key not in _SAID and value):
            notes[f"sampling parameters of a request: {', '.join(left)}"] += 1
        for name in ("mm_features", "pooling_params", "lora_request", "prompt_embeds", "cache_salt",
                     "priority", "trace_headers", "session_id", "kv_hints"):  # fmt: skip
            if getattr(asked, name):
                notes[f"{name} of a request"] += 1
        if request.add.aux:
            notes["tensors behind an ADD"] += 1

    def _frontend(self, step: dict[str, Any], client_index: int) -> None:
        if client_index == 1:
            step["frontend"] = 1
        elif client_index > 1:
            self._session.notes["that more than two frontends took part: the first one asks"] += 1

    def _utility(self, call: Call) -> dict[str, Any]:
        step: dict[str, Any] = {"id": call.name, "method": call.method, "via": "raw"}
        args: list[Any] = plain_value(call.args)
        if not sayable(args):
            self._session.notes[f"arguments of {call.method} that no scenario can say"] += 1
            args = []
        elif call.name not in self._unusual and (
            found := api_call(self._session.profile, call.method, args)
        ):
            # Every target has the API; not every one sends any name.
            name, args = found
            step = {"id": call.name, "method": name}
        if args:
            step["args"] = args
        self._frontend(step, call.client_index)
        return step

    def _replied(self, call: Call) -> dict[str, Any]:
        """How a call ended; the caller is told the failure of the lowest engine."""
        failures = [one.failure for _, one in sorted(call.answers.items()) if one.failure]
        if len(call.answers) > 1:
            self._session.notes["when each engine answered a call: all do at once here"] += 1
        if not failures:
            self._session.notes["what a call returned: its expectation says that it finished"] += 1
            return {"op": call.name, "outcome": "finished"}
        found = {"op": call.name, "outcome": "failed"}
        return found | {"message": failures[0]} if len(failures[0]) <= MESSAGE_MAX else found

    def _expectations(self) -> None:
        """How each operation ended that came to its end before an engine died."""
        ends: list[dict[str, Any]] = []
        for word, one in self._session.moments:
            if word == DEATH:
                break
            if word not in (END, REPLIED) or one.name not in self._known:
                continue
            if word == END and one.aborted_after is None and one.end:
                found = {"op": one.name, "outcome": "finished", "finish": one.end}
                if gate_of(one) is None:
                    found["tokens"] = one.tokens
                ends.append(found)
            elif word == REPLIED:
                ends.append(self._replied(one))
        self._steps += [{"expect": found} for found in ends]
        self._steps += [{"fence": True}, {"expect": {"healthy": not self._dead}}]
