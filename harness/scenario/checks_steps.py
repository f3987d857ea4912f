"""Checks of the story: operations, gates, events and expectations fit together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from harness.scenario.checks_actions import is_hex
from harness.scenario.checks_engines import called_methods, unknown_method
from harness.scenario.checks_values import can_equal, matches_of
from harness.scenario.finding import Finding
from harness.scenario.model import CoordinatorStep, EventMatch, Expect, Scenario, Step
from harness.scenario.positions import Path
from harness.scenario.problems import did_you_mean, one_of, show
from harness.trace.kinds import FIELDS_OF, KIND_OF, UnknownKindError, class_of
from mock_engines.behaviours.model import Action

SUBJECTS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "op": (
        frozenset({"op"}),
        frozenset(
            [
                "outcome",
                "value",
                "error",
                "message",
                "tokens",
                "finish",
                "kv_transfer_params",
                "engine",
                "status",
                "text",
                "body",
                "body_text",
            ]
        ),
    ),
    "count": (frozenset({"count"}), frozenset()),
    "order": (frozenset({"order"}), frozenset()),
    "snapshot": (frozenset({"pending_utility_calls", "in_flight"}), frozenset()),
    "health": (frozenset({"healthy", "health_error"}), frozenset({"message"})),
    "engine": (frozenset({"state"}), frozenset({"engine"})),
    "server_info": (frozenset({"server_info"}), frozenset()),
    "connect": (frozenset({"connect"}), frozenset({"error", "message"})),
    "metrics": (frozenset({"metrics"}), frozenset()),
    "process": (frozenset({"process"}), frozenset()),
    "exit_code": (frozenset({"exit_code"}), frozenset()),
    "coordinator": (frozenset({"coordinator_wave", "coordinator_running"}), frozenset()),
}
"""Subject of an expectation: keys that choose it, and further keys that go with it."""


# --- operations -----------------------------------------------------------------------------


def check_steps(scenario: Scenario) -> Iterator[Finding]:
    """Operations are started once, before they are used; steps say enough."""
    calls: dict[str, None] = {}  # in order, and quick to ask: a crowd has many
    others: dict[str, None] = {}
    samples: list[str] = []
    for i, step in enumerate(scenario.steps):
        base: Path = ("steps", i, step.verb)
        for path, name, only_calls in _uses(base, step):
            if name not in calls and (only_calls or name not in others):
                yield _never_started(path, name, list(calls), list(others), only_calls)
        started = step.call or step.utility or step.http or step.grpc or step.scale
        new = [] if started is None else [started.id]
        if (crowd := step.crowd) is not None:
            new = [f"{crowd.id}-{n}" for n in range(crowd.callers)]
        taken = next((name for name in new if name in calls or name in others), None)
        if taken is not None:
            yield Finding((*base, "id"), f"operation '{taken}' is started twice")
        kind = others if step.call is None and crowd is None else calls
        kind.update(dict.fromkeys(new))
        if step.sample is not None:
            if step.sample.id in samples:
                yield Finding((*base, "id"), f"sample '{step.sample.id}' is taken twice")
            samples.append(step.sample.id)
        yield from _sampled(base, step, samples)
        yield from _says_enough(base, step)
    yield from _events(scenario)


def _sampled(base: Path, step: Step, samples: list[str]) -> Iterator[Finding]:
    process = step.expect.process if step.expect is not None else None
    if process is None or process.since in samples:
        return
    yield Finding(
        (*base, "process", "since"),
        f"no sample '{process.since}' was taken before this step",
        one_of(samples) if samples else f"an earlier step 'sample: {{id: {process.since}}}'",
        did_you_mean(process.since, samples),
    )


def _uses(base: Path, step: Step) -> Iterator[tuple[Path, str, bool]]:
    """Operations that a step names: path, id, and whether it must be a call."""
    for name in (step.cancel, step.drop):
        if name is not None:
            yield base, name, step.drop is not None
    for names in (step.abort, step.finish):
        for j, name in enumerate(names or []):
            yield (*base, j), name, step.abort is not None
    if step.expect is not None and step.expect.op is not None:
        yield (*base, "op"), step.expect.op, False
    for path, match in matches_of(base, step):
        if match.request is not None:
            yield (*path, "request"), match.request, True


def _never_started(
    path: Path, name: str, calls: list[str], others: list[str], only_calls: bool
) -> Finding:
    if name in others:
        return Finding(path, f"'{name}' is no generation", "the id of a call step")
    choices = calls if only_calls else calls + others
    expected = one_of(choices) if choices else "the id of an earlier call or utility step"
    return Finding(
        path,
        f"operation '{name}' was never started before this step",
        expected,
        did_you_mean(name, choices),
    )


def _says_enough(base: Path, step: Step) -> Iterator[Finding]:
    if (engine := step.engine) is not None and not engine.do and not engine.rejoin:
        yield Finding(base, "the step tells the engine nothing", "do: [actions], or rejoin: true")
    for key in ("finish", "abort"):
        if getattr(step, key) == []:
            yield Finding(base, f"the step has nothing to {key}", "at least one id")
    if (link := step.link) is not None:
        chosen = [k for k in ("hold", "hold_after", "fail", "clear") if getattr(link, k)]
        if len(chosen) != 1:
            yield Finding(
                base,
                f"a link step has exactly one fault, this one has {', '.join(chosen) or 'none'}",
                "one of hold, hold_after, fail, clear",
            )
    if (call := step.call) is not None and call.rank is not None and call.rank_text is not None:
        yield Finding((*base, "rank_text"), "rank and rank_text exclude each other")
    for j, text in enumerate(call.aux if call is not None else []):
        if not is_hex(text):
            yield Finding((*base, "aux", j), f"'{text}' is no hexadecimal text", "such as '00ff'")
    if step.coordinator is not None:
        yield from _coordinator(base, step.coordinator)


def _coordinator(base: Path, step: CoordinatorStep) -> Iterator[Finding]:
    chosen = sorted(step.model_fields_set)
    if len(chosen) != 1:
        yield Finding(
            base,
            f"a coordinator step has exactly one key, this one has {', '.join(chosen) or 'none'}",
            "one of stop, start, publish, publish_raw",
        )
    for key in ("stop", "start"):
        if key in chosen and not getattr(step, key):
            yield Finding((*base, key), "the step does nothing", f"{key}: true")
    for j, text in enumerate(step.publish_raw or []):
        if not is_hex(text):
            yield Finding(
                (*base, "publish_raw", j), f"'{text}' is no hexadecimal text", "such as '93c0'"
            )
    if step.publish_raw == []:
        yield Finding((*base, "publish_raw"), "there is no frame to send", "at least one")
    if step.publish is None:
        return
    if len(step.publish) != 3:
        yield Finding((*base, "publish"), "publish has three items", "[counts, wave, running]")
        return
    wanted = (
        (list, type(None), "null, or a list of lists of numbers, one for each engine"),
        (int, int, "the number of a wave"),
        (bool, bool, "true or false"),
    )
    for j, (value, (kind, other, expected)) in enumerate(zip(step.publish, wanted, strict=True)):
        whole = j > 0 or value is None or can_equal(value, list[list[float]])
        if type(value) not in {kind, other} or not whole:
            title = f"{show(value)} is no {('counts', 'wave', 'running flag')[j]} of a publish"
            yield Finding(
                (*base, "publish", j), title, f"{expected}; publish_raw for anything else"
            )


# --- events ---------------------------------------------------------------------------------


def _events(scenario: Scenario) -> Iterator[Finding]:
    called = called_methods(scenario)
    for i, step in enumerate(scenario.steps):
        for path, match in matches_of(("steps", i, step.verb), step):
            yield from _event(path, match, called)


def _event(path: Path, match: EventMatch, called: Collection[str]) -> Iterator[Finding]:
    try:
        fields = FIELDS_OF[class_of(match.event)]
    except UnknownKindError:
        kinds = [kind for kind, _ in KIND_OF.values()]
        yield Finding(
            (*path, "event"),
            f"unknown event '{match.event}'",
            one_of(kinds),
            did_you_mean(match.event, kinds),
        )
        return
    for key in match.where:
        if key not in fields:
            yield Finding(
                (*path, "where", key),
                f"event '{match.event}' has no field '{key}'",
                one_of(fields),
                did_you_mean(key, fields),
                on_key=True,
            )
    for key in ("engine", "method"):
        if getattr(match, key) is not None and key not in fields:
            yield Finding(
                (*path, key), f"event '{match.event}' has no field '{key}'", one_of(fields)
            )
    if match.method is not None and "method" in fields:
        yield from unknown_method((*path, "method"), match.method, called)


# --- expectations ---------------------------------------------------------------------------


def check_expectations(scenario: Scenario) -> Iterator[Finding]:
    """Each expectation has one subject, and claims something about it."""
    for i, step in enumerate(scenario.steps):
        if step.expect is not None:
            yield from _expectation(("steps", i, "expect"), step.expect)


def _expectation(path: Path, expect: Expect) -> Iterator[Finding]:
    given = expect.model_fields_set - {"when"}
    subjects = [name for name, (keys, _) in SUBJECTS.items() if keys & given]
    if len(subjects) != 1:
        yield Finding(
            path,
            f"an expectation has exactly one subject, this one has {', '.join(subjects) or 'none'}",
            one_of(key for keys, _ in SUBJECTS.values() for key in sorted(keys)),
        )
        return
    subject = subjects[0]
    choosing, further = SUBJECTS[subject]
    for key in sorted(given - choosing - further):
        yield Finding(
            (*path, key),
            f"'{key}' does not go with an expectation about {subject}",
            one_of(sorted(choosing | further)),
        )
    if subject == "op" and not given & further:
        yield Finding(
            path, "the expectation claims nothing about the operation", one_of(sorted(further))
        )
    if subject == "engine" and expect.engine is None:
        yield Finding(path, "key 'engine' is missing", "the rank whose state it is")
    if expect.count is not None:
        bounds = ("equals", "at_least", "at_most")
        if all(getattr(expect.count, bound) is None for bound in bounds):
            yield Finding((*path, "count"), "the count has no bound", one_of(bounds))
    if (process := expect.process) is not None:
        limits = ("rss_mb_at_most", "descriptors_at_most")
        if all(getattr(process, limit) is None for limit in limits):
            yield Finding((*path, "process"), "the expectation has no bound", one_of(limits))
    if expect.order is not None and len(expect.order) < 2:
        yield Finding((*path, "order"), "an order needs two events", "at least 2 items")


# --- gates ----------------------------------------------------------------------------------


def check_gates(scenario: Scenario) -> Iterator[Finding]:
    """Something waits at each gate that is opened, and each gate waited at is opened."""
    waited: dict[str, Path] = {}
    opened: dict[str, Path] = {}
    for path, name, opens in gate_uses(scenario):
        (opened if opens else waited).setdefault(name, path)
    for path, name, _ in gate_uses(scenario):
        if not name:
            yield Finding(path, "a gate has no name", "a name")
    for name, path in opened.items():
        if name not in waited:
            yield Finding(
                path,
                f"nothing waits at gate '{name}'",
                one_of(waited) if waited else "a gate that an engine, a link or a join waits at",
                did_you_mean(name, waited),
            )
    for name, path in waited.items():
        if name not in opened and name not in scenario.open_at_end:
            yield Finding(
                path,
                f"gate '{name}' is never opened",
                f"a step 'open: {name}', or '{name}' in open_at_end",
                did_you_mean(name, [gate for gate in opened if gate not in waited]),
            )
    yield from _left_open(scenario, waited)


def _left_open(scenario: Scenario, waited: Mapping[str, Path]) -> Iterator[Finding]:
    started = (s.call or s.utility or s.http or s.grpc or s.scale for s in scenario.steps)
    ops = [step.id for step in started if step is not None]
    for i, name in enumerate(scenario.open_at_end):
        if name not in waited and name not in ops:
            choices = [*waited, *ops]
            yield Finding(
                ("open_at_end", i),
                f"'{name}' is no gate and no operation",
                one_of(choices),
                did_you_mean(name, choices),
            )


def gate_uses(scenario: Scenario) -> Iterator[tuple[Path, str, bool]]:
    """Each use of a gate: path, name, whether it opens the gate."""
    for i, spec in enumerate(scenario.engines):
        if spec.join.gate is not None:
            yield ("engines", i, "join", "gate"), spec.join.gate, False
        for j, rule in enumerate(spec.rules):
            yield from _gates_of(("engines", i, "rules", j, "do"), rule.do)
    for i, step in enumerate(scenario.steps):
        base: Path = ("steps", i, step.verb)
        if step.open is not None:
            yield base, step.open, True
        if step.engine is not None:
            yield from _gates_of((*base, "do"), step.engine.do)
        for reader in (step.call, step.http):
            if reader is not None and reader.read is not None:
                yield (*base, "read"), reader.read, False
        if step.link is not None:
            for key in ("hold", "hold_after"):
                if (name := getattr(step.link, key)) is not None:
                    yield (*base, key), name, False


def _gates_of(base: Path, actions: list[Action]) -> Iterator[tuple[Path, str, bool]]:
    for j, action in enumerate(actions):
        path: Path = (*base, j)
        if isinstance(action.hang, str):
            yield (*path, "hang"), action.hang, False
        if action.stall is not None:
            yield (*path, "stall"), action.stall, False
        if action.stream is not None and action.stream.gate is not None:
            yield (*path, "stream", "gate"), action.stream.gate, False
        if action.open is not None:
            yield (*path, "open"), action.open, True
