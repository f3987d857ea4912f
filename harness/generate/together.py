"""What a story about engines that step together may contain. Pure.

Ranks that wait for each other for ever are a finding only if the story itself did not see to it. So
nothing here loses a wake-up or a request that a peer counts on, tells some ranks to pause and not the
others, or sends what the loop of an engine knows nothing of. Everything may come late, callers leave
when they like, and engines are paused, put to sleep and woken, one admin at a time:

- a message may be held up on its way, or at an engine, until a gate opens; never for ever;
- a call that pauses or resumes is waited for before the next thing happens. Two that resume at once,
  or one that resumes during a pause, strand real engines (an open fault, in scenarios of its own);
- callers leave only where engines follow 0.33: a rank up to 0.32 whose request is aborted before its
  first step sleeps on, and the peers that were woken for it wait for ever (a scenario of its own);
- no call takes the id of an earlier one: an engine carries an ABORT out in its turn and beside a step, and whichever comes second
  takes a request along that came under the same id meanwhile;
- no engine dies, and the coordinator stays: a rank that is gone lets its peers wait by design.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.version import Version

from harness.generate.fields import Data
from harness.generate.utilities import PAUSING

LOCKSTEP = "lockstep"
LEAVING_SINCE = "0.33.0"
"""Releases whose engines survive that a request is aborted before its first step."""
LEAVES = frozenset({"cancel", "drop", "abort"})
VERBS = frozenset({"call", "utility", "link", "open", "fence", "cancel", "drop", "abort", "finish"})
"""Verbs of such a story; ``load`` and ``crowd`` besides."""
MORE_VERBS = frozenset({"load", "crowd"})
ACTIONS = frozenset({"default", "stream", "hang", "delay_ms", "open"})
ANSWERS = ACTIONS | {"reply", "fail"}
"""What may be done with a call that moves no wave."""
MOVING = PAUSING | {"resume", "resume_scheduler", "wake_up", "release_kv_cache_memory", "barrier"}
"""Calls that all ranks carry out together, or none."""
STREAM_KEYS = frozenset({"tokens", "finish", "stop_reason"})


def moves(step: Mapping[str, Data]) -> bool:
    """Whether a step calls a method that all ranks carry out together."""
    call = step.get("utility")
    return isinstance(call, Mapping) and call.get("method") in MOVING


def profiles(release: str | None) -> str:
    """Releases for such a story, where the target leaves the choice."""
    return f">={LEAVING_SINCE}" if release is None else ""


def leaving_is_safe(release: str | None) -> bool:
    """Whether callers may leave in a story that is played against this release."""
    return release is None or Version(release) >= Version(LEAVING_SINCE)


def patient(step: Mapping[str, Data]) -> dict[str, Data]:
    """The same call without a deadline: whoever gives up does not know what the ranks do."""
    return {"utility": {k: v for k, v in step["utility"].items() if k != "timeout_s"}}


def may(verb: str, payload: Data) -> bool:
    """Whether such a story may have this step."""
    if verb == "link":
        return "fail" not in payload
    return verb in VERBS | MORE_VERBS


def actions(found: Sequence[dict[str, Data]], on: str) -> list[dict[str, Data]]:
    """What is left of a rule's actions; they end with what the engine would do anyway."""
    allowed = ANSWERS if on == "utility" else ACTIONS
    kept = [_kept(action) for action in found if not allowed.isdisjoint(action)]
    kept = [action for action in kept if action.get("hang") is not True]
    if not any({"default", "stream", "reply", "fail"} & set(action) for action in kept):
        kept.append({"default": True})
    return kept


def _kept(action: dict[str, Data]) -> dict[str, Data]:
    stream = action.get("stream")
    if not isinstance(stream, Mapping):
        return action
    left = {key: value for key, value in stream.items() if key in STREAM_KEYS}
    if left.get("finish", "length") is None:
        del left["finish"]
    return {"stream": left}


def concerns_moves(rule: Mapping[str, Data]) -> bool:
    """Whether a rule may take a call that all ranks carry out together, or a wake-up."""
    if rule["on"] != "utility":
        return False
    methods = rule.get("method")
    return methods is None or not MOVING.isdisjoint(methods)
