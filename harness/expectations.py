"""Judging the ``expect`` steps of a scenario: a pure comparison of what is wanted and seen."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness.exit_words import code_and_name
from harness.scenario.model import CountExpect, EventMatch, Expect
from harness.targets.base import Health, Metrics, ProcessUse
from harness.targets.vllm_rs.metric_families import family_of
from harness.trace.events import Record, Snapshot

HELD, VIOLATED, NOT_JUDGED = "held", "violated", "not_judged"


class Op(msgspec.Struct):
    """One call or utility call of the scenario, as its caller sees it."""

    id: str
    kind: str
    external_id: str = ""
    method: str = ""
    outcome: str = "pending"
    finish: str | None = None
    value: Any = None
    error: str | None = None
    message: str = ""
    tokens: list[int] = msgspec.field(default_factory=list)
    kv_transfer_params: Mapping[str, Any] | None = None
    engine: int | None = None
    frontend: int = 0
    status: int | str | None = None
    text: str = ""
    body: Any = None
    body_text: str = ""


class View(msgspec.Struct, frozen=True):
    """What an expectation may look at, taken at one moment.

    ``None`` for ``snapshot``, ``health``, ``server_info``, ``metrics`` or ``use`` means that the
    target cannot show it (or that it was not asked for). ``samples``: earlier ones by label.
    """

    ops: Mapping[str, Op]
    records: Sequence[Record]
    matches: Callable[[Record, EventMatch], bool]
    release: Version
    connect_error: tuple[str | None, str] | None = None
    snapshot: Snapshot | None = None
    health: Health | None = None
    server_info: Mapping[str, Any] | None = None
    engine_state: Mapping[str, Any] | None = None
    metrics: Metrics | None = None
    use: ProcessUse | None = None
    samples: Mapping[str, ProcessUse] = msgspec.field(default_factory=dict)
    exit_code: int | None = None


class Outcome(msgspec.Struct, frozen=True):
    """Result of one expectation: ``status`` held, violated or not_judged."""

    status: str
    expected: str
    seen: str
    witness: tuple[int, ...] = ()


_SINGLE = frozenset({str, int, bool, float, type(None)})
"""Values without parts."""


def subset_difference(wanted: Any, seen: Any) -> bool:
    """Whether ``seen`` lacks something of ``wanted``; extra keys of maps do not count.

    Types count at every depth: ``1`` is not ``true``.
    """
    if wanted.__class__ in _SINGLE:  # mostly; an abstract class takes long to say no
        return bool(wanted != seen) or type(wanted) is not type(seen)
    if isinstance(wanted, Mapping) and isinstance(seen, Mapping):
        return any(key not in seen or subset_difference(v, seen[key]) for key, v in wanted.items())
    if isinstance(wanted, list) and isinstance(seen, list):
        pairs = zip(wanted, seen, strict=False)
        return len(wanted) != len(seen) or any(subset_difference(v, s) for v, s in pairs)
    return bool(wanted != seen) or type(wanted) is not type(seen)


def judge(expect: Expect, view: View) -> Outcome:
    """Compare one expectation with the view; every part that is set must hold."""
    if expect.when is not None and view.release not in SpecifierSet(expect.when):
        return Outcome(NOT_JUDGED, f"only {expect.when}", f"release {view.release}")
    parts = [part for check in CHECKS if (part := check(expect, view)) is not None]
    worst = VIOLATED if any(p.status == VIOLATED for p in parts) else HELD
    if any(p.status == NOT_JUDGED for p in parts) and worst == HELD:
        worst = NOT_JUDGED
    shown = [p for p in parts if p.status == worst] or parts
    witness = tuple(sorted({seq for p in shown for seq in p.witness}))
    return Outcome(
        worst, "; ".join(p.expected for p in shown), "; ".join(p.seen for p in shown), witness
    )


def _compare(wanted: Mapping[str, Any], seen: Mapping[str, Any]) -> Outcome:
    bad = [key for key in wanted if subset_difference(wanted[key], seen.get(key))]
    keys = bad or list(wanted)
    return Outcome(
        VIOLATED if bad else HELD,
        ", ".join(f"{key} = {wanted[key]!r}" for key in keys),
        ", ".join(f"{key} = {seen.get(key)!r}" for key in keys),
    )


_COMPARED = (
    *("outcome", "value", "error", "finish", "kv_transfer_params", "engine"),
    *("status", "text", "body"),
)
"""Keys of an expectation that are attributes of ``Op`` and compared as they are."""


def _op(expect: Expect, view: View) -> Outcome | None:
    if expect.op is None:
        return None
    op = view.ops.get(expect.op)
    if op is None:
        return Outcome(VIOLATED, f"op {expect.op} was started", "it never was")
    wanted: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    for name in _COMPARED:
        if name in expect.model_fields_set:
            wanted[name], seen[name] = getattr(expect, name), getattr(op, name)
    if expect.body_text is not None:
        contained = expect.body_text in op.body_text
        wanted["body text"] = f"… {expect.body_text} …"
        seen["body text"] = wanted["body text"] if contained else op.body_text
    if expect.tokens is not None:
        wanted["tokens"], seen["tokens"] = expect.tokens, len(op.tokens)
    if expect.message is not None:
        contained = expect.message in op.message
        wanted["message"] = f"… {expect.message} …"
        seen["message"] = wanted["message"] if contained else op.message
    if not wanted:
        wanted, seen = {"started": True}, {"started": True}
    result = _compare(wanted, seen)
    seen_text = result.seen
    if op.outcome == "failed" and result.status == VIOLATED:
        seen_text += f" (op failed: {op.error}: {op.message})"
    return Outcome(result.status, f"{op.id}: {result.expected}", f"{op.id}: {seen_text}")


def _state(expect: Expect, view: View) -> Outcome | None:
    if expect.state is None:
        return None
    where = f"engine {expect.engine}: "
    if view.engine_state is None:
        return Outcome(NOT_JUDGED, where + repr(expect.state), "the engine's state is not known")
    result = _compare(expect.state, view.engine_state)
    return Outcome(result.status, where + result.expected, where + result.seen)


def describe_match(match: EventMatch) -> str:
    """Say which events a match selects, in words."""
    words = [match.event]
    if match.request is not None:
        words.append(f"of {match.request}")
    if match.method is not None:
        words.append(f"{match.method}")
    if match.engine is not None:
        words.append(f"at engine {match.engine}")
    words.extend(f"{key}={value!r}" for key, value in match.where.items())
    return " ".join(words)


def asked_for(expect: Expect) -> list[tuple[EventMatch, int]]:
    """Events that a count or an order needs, and how many of each, at least."""
    wanted: list[tuple[EventMatch, int]] = [(match, 1) for match in expect.order or ()]
    if expect.count is not None and (least := expect.count.equals or expect.count.at_least):
        wanted.append((expect.count, least))
    return wanted


def _count(expect: Expect, view: View) -> Outcome | None:
    count = expect.count
    if count is None:
        return None
    found = [r.seq for r in view.records if view.matches(r, count)]
    bounds = _bounds(count)
    good = all(test(len(found)) for _, test in bounds)
    text = " and ".join(words for words, _ in bounds)
    return Outcome(
        HELD if good else VIOLATED,
        f"{text} × {describe_match(count)}",
        f"{len(found)} × {describe_match(count)}",
        tuple(found[:8]),
    )


def _bounds(count: CountExpect) -> list[tuple[str, Callable[[int], bool]]]:
    bounds: list[tuple[str, Callable[[int], bool]]] = []
    if (equals := count.equals) is not None:
        bounds.append((f"exactly {equals}", lambda n: n == equals))
    if (low := count.at_least) is not None:
        bounds.append((f"at least {low}", lambda n: n >= low))
    if (high := count.at_most) is not None:
        bounds.append((f"at most {high}", lambda n: n <= high))
    return bounds or [("at least 1", lambda n: n >= 1)]


def _order(expect: Expect, view: View) -> Outcome | None:
    if expect.order is None:
        return None
    firsts: list[int | None] = [
        next((r.seq for r in view.records if view.matches(r, match)), None)
        for match in expect.order
    ]
    known = [seq for seq in firsts if seq is not None]
    # Strictly: an event that two matches select is not before itself.
    good = len(known) == len(firsts) and all(a < b for a, b in itertools.pairwise(known))
    names = [describe_match(match) for match in expect.order]
    seen = ", ".join(
        f"{name} {'never' if seq is None else f'#{seq}'}"
        for name, seq in zip(names, firsts, strict=True)
    )
    return Outcome(HELD if good else VIOLATED, " before ".join(names), seen, tuple(known))


def _registries(expect: Expect, view: View) -> Outcome | None:
    names = ("pending_utility_calls", "in_flight", "coordinator_wave", "coordinator_running")
    wanted = {name: getattr(expect, name) for name in names if getattr(expect, name) is not None}
    if not wanted:
        return None
    shot = view.snapshot
    if shot is None:
        return Outcome(NOT_JUDGED, repr(wanted), "the target cannot show its registries")
    seen = {
        "pending_utility_calls": len(shot.pending_utility),
        "in_flight": len(shot.in_flight),
        "coordinator_wave": shot.wave,
        "coordinator_running": shot.running,
    }
    return _compare(wanted, seen)


def _health(expect: Expect, view: View) -> Outcome | None:
    wanted: dict[str, Any] = {}
    if expect.healthy is not None:
        wanted["healthy"] = expect.healthy
    if expect.health_error is not None:
        wanted["health error"] = expect.health_error
    if not wanted:
        return None
    if expect.message is not None:
        wanted["message"] = f"… {expect.message} …"
    health = view.health
    if health is None:
        return Outcome(NOT_JUDGED, repr(wanted), "the target's health is not known")
    tells = health.healthy or health.error is not None
    if not tells and (expect.health_error is not None or expect.message is not None):
        return Outcome(NOT_JUDGED, repr(wanted), "the target does not say which error it was")
    seen: dict[str, Any] = {
        "healthy": health.healthy,
        "health error": health.error,
        "message": health.message,
    }
    if expect.message is not None and expect.message in health.message:
        seen["message"] = wanted["message"]
    return _compare(wanted, seen)


def _info(expect: Expect, view: View) -> Outcome | None:
    if expect.server_info is None:
        return None
    if view.server_info is None:
        return Outcome(NOT_JUDGED, repr(expect.server_info), "the target does not say")
    return _compare(expect.server_info, view.server_info)


def _connect(expect: Expect, view: View) -> Outcome | None:
    if expect.connect is None:
        return None
    if view.connect_error is None:
        return Outcome(VIOLATED, f"connect: {expect.connect}", "connect: still pending")
    error, message = view.connect_error
    wanted: dict[str, Any] = {"connect": expect.connect}
    seen: dict[str, Any] = {"connect": "ok" if error is None else "failed"}
    if expect.error is not None and expect.op is None:
        wanted["error"], seen["error"] = expect.error, error
    if expect.message is not None and expect.op is None:
        wanted["message"] = f"… {expect.message} …"
        seen["message"] = wanted["message"] if expect.message in message else message
    result = _compare(wanted, seen)
    note = f" ({error}: {message})" if result.status == VIOLATED and error is not None else ""
    return Outcome(result.status, result.expected, result.seen + note)


def _metrics(expect: Expect, view: View) -> Outcome | None:
    if expect.metrics is None:
        return None
    if view.metrics is None:
        return Outcome(NOT_JUDGED, repr(expect.metrics), "the target has no metrics")
    seen = {name: _seen(name, view.metrics, view.release) for name in expect.metrics}
    wanted = {name: float(value) for name, value in expect.metrics.items()}
    judged = [name for name in wanted if not isinstance(seen[name], _NotThere)]
    result = _compare({n: wanted[n] for n in judged}, {n: seen[n] for n in judged})
    lacking = [name for name in wanted if name not in judged]
    if result.status == VIOLATED or not lacking:
        return result
    return Outcome(
        NOT_JUDGED,
        ", ".join(f"{name} = {wanted[name]!r}" for name in lacking),
        ", ".join(dict.fromkeys(str(seen[name]) for name in lacking)),
    )


class _NotThere(str):
    """Why a release has no such sample."""

    __slots__ = ()


def _seen(sample: str, metrics: Metrics, release: Version) -> float | str:
    """Return the value of a sample, or say why there is none.

    A family that is declared without the sample counts as 0: that is how the frontend shows what
    never happened. One that is not declared is no 0: either this release has none, which is not
    judged, or it should be there, which is violated.
    """
    if (value := metrics.samples.get(sample)) is not None:
        return value
    family = family_of(sample)
    name = sample.partition("{")[0] if family is None else family.name
    if name in metrics.families:
        return 0.0
    if family is not None and release < Version(family.since):
        return _NotThere(f"metric {name} exists since {family.since}, this is {release}")
    return f"metric {name} is not served"


def _process(expect: Expect, view: View) -> Outcome | None:
    wanted = expect.process
    if wanted is None:
        return None
    before = view.samples.get(wanted.since)
    if view.use is None or before is None:
        return Outcome(NOT_JUDGED, f"growth since {wanted.since}", "the process cannot be seen")
    grown = {
        "rss, MiB": (view.use.rss_bytes - before.rss_bytes) / 2**20,
        "descriptors": view.use.descriptors - before.descriptors,
    }
    limits = {"rss, MiB": wanted.rss_mb_at_most, "descriptors": wanted.descriptors_at_most}
    bounded = {name: limit for name, limit in limits.items() if limit is not None}
    bad = [name for name, limit in bounded.items() if grown[name] > limit]
    names = bad or list(bounded)
    return Outcome(
        VIOLATED if bad else HELD,
        f"since {wanted.since}: " + ", ".join(f"{n} at most +{bounded[n]:g}" for n in names),
        f"since {wanted.since}: " + ", ".join(f"{n} {grown[n]:+.1f}" for n in names),
    )


def _exit(expect: Expect, view: View) -> Outcome | None:
    if expect.exit_code is None:
        return None
    return Outcome(
        HELD if expect.exit_code == view.exit_code else VIOLATED,
        f"exit code = {code_and_name(expect.exit_code)}",
        "exit code = None: it runs"
        if view.exit_code is None
        else f"exit code = {code_and_name(view.exit_code)}",
    )


CHECKS: tuple[Callable[[Expect, View], Outcome | None], ...] = (
    *(_op, _state, _count, _order, _registries, _health, _info, _connect),
    *(_metrics, _process, _exit),
)
"""One check for each subject; those that an expectation does not concern say ``None``."""
