"""What actions of a generated scenario do to the rest of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.generate.fields import Data

Actions = Sequence[Mapping[str, Data]]


def odd_join(join: Mapping[str, Data]) -> bool:
    """Whether an engine joins in a way that may end the startup."""
    return bool(set(join) - {"gate"})


def is_for_coordinator(action: Mapping[str, Data]) -> bool:
    """Whether an action needs a coordinator."""
    payload = next(iter(action.values()))
    path = payload.get("path") if isinstance(payload, Mapping) else None
    return path == "coordinator" or not {"wave_complete", "start_wave", "flood"}.isdisjoint(action)


def waits(actions: Actions) -> bool:
    """Whether actions may take long."""
    return any(verb in action for action in actions for verb in ("hang", "flood", "delay_ms"))


def makes_unsure(actions: Actions) -> bool:
    """Whether one of these ends an engine or a client, or keeps it from anything further."""
    verbs = {verb for action in actions for verb in action}
    return not verbs.isdisjoint({"die", "raw", "stall", "output", "reply_with", "drop", "hang"})


def may_break(actions: Actions) -> bool:
    """Whether a client may fail because of one of these."""
    verbs = {verb for action in actions for verb in action}
    return not verbs.isdisjoint({"die", "raw", "output", "reply_with", "stats"})


def is_plain(payload: Mapping[str, Data], ranks: list[int]) -> bool:
    """Whether a call or a utility call is sure to be sent."""
    if {"unencodable", "rank_text", "request_id", "aux", "timeout_s"} & set(payload):
        return False
    return payload.get("rank") is None or payload["rank"] in ranks


def may_swallow(actions: Actions) -> bool:
    """Whether work may be left over for ever."""
    return any(
        action.get("hang") is True
        or "stall" in action
        or "raw" in action
        or action.get("die") in ("vanish", "close")
        for action in actions
    )


def ends_request(actions: Actions) -> bool:
    """Whether actions on an ADD are sure to end it."""
    first = next(iter(actions[0]), "")
    if first == "drop":
        return False
    for action in actions:
        if "default" in action or "finish_only" in action:
            return True
        stream, output = action.get("stream"), action.get("output")
        if stream is not None and stream.get("finish", "length") is not None:
            return True
        if output is not None and output.get("finish") and "request" not in output:
            return True
    return False


def answers(actions: Actions) -> bool:
    """Whether actions on a UTILITY are sure to answer it."""
    if next(iter(actions[0]), "") == "drop":
        return False
    if any("reply" in a or "fail" in a or "default" in a for a in actions):
        return True
    return any(
        not {"call_id", "add_to_call_id"} & set(a["reply_with"])
        for a in actions
        if "reply_with" in a
    )
