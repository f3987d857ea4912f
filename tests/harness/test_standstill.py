"""A step that does not come to its end: what its report names, in the words of the scenario."""

from __future__ import annotations

import re

import pytest

from harness.expectations import Op
from harness.standstill import Stand, tell
from harness.standstill.work import ANSWERS, WorkBook
from harness.trace.events import CallStarted, Record, StepBegan, UtilityStarted
from mock_engines.behaviours.model import Action
from mock_engines.behaviours.registry import action_problem
from mock_engines.events import (
    AbortSeen,
    AddSeen,
    EngineDied,
    EngineJoined,
    EngineRemoved,
    EngineResumed,
    EngineStalled,
    FinishedOnlySent,
    OutputSent,
    UtilityReplySent,
    UtilitySeen,
)
from tests.support.stories import load_unchecked, perform

INTERNALS = re.compile(
    r"Socket|Mailbox|task|future|<locals>|main|loop|input 0|worker", re.IGNORECASE
)
"""Words of our inside, none of which helps whoever wrote the scenario."""
HOLD = "engines:\n  - {engine: 1, rules: [{on: utility, method: sleep, do: [{hang: g}, {default: true}]}]}\n"
CALL = "steps:\n  - utility: {id: u, method: sleep}\n  - finish: u\n"
STREAM = "engines:\n  - {engine: 0, rules: [{on: add, do: {stream: {tokens: 5, pause_at: 2, gate: more}}}]}\n"


def report(story):
    """The lines of the one violated step, without numbers of events."""
    (stuck,) = [r for r in perform(story).story.results if r.outcome.status == "violated"]
    return re.sub(r"#\d+", "#n", stuck.outcome.seen).splitlines()


# --- what it waits for ----------------------------------------------------------------------


def test_reply_held_at_a_gate_that_a_later_step_opens_is_told_with_engine_method_gate_and_step():
    assert report(HOLD + CALL + "  - open: g\n") == [
        "it has waited since #n, for 120 s: `u` has not ended",
        "  engine 1 holds its reply to `sleep` (#n) at gate `g`, which step 2 (`open`) opens, behind "
        "this one",
        "  `u` (sleep) is open, since #n",
    ]


def test_gate_that_nothing_opens_is_told_as_such():
    assert report(HOLD + CALL + "open_at_end: [g, u]\n")[1] == (
        "  engine 1 holds its reply to `sleep` (#n) at gate `g`, which no later step opens (it is in "
        "`open_at_end`)"
    )


def test_gate_that_a_rule_opens_is_told_with_the_engine_that_has_it():
    opens = "  - {engine: 0, rules: [{on: abort, do: {open: g}}]}\n"
    assert report(HOLD + opens + CALL)[1].endswith("at gate `g`, which a rule of engine 0 opens")


@pytest.mark.parametrize(
    ("do", "told"),
    [
        ("{hang: true}", "engine 1 holds its reply to `sleep` (#n) for ever (`hang: true`)"),
        ("{drop: true}", "engine 1 ignores `sleep` (#n): `drop: true`"),
        (
            "[{delay_ms: 500000}, {default: true}]",
            "engine 1 holds its reply to `sleep` (#n) in, or behind, `delay_ms: 500000`",
        ),
        (
            "{apply: true}",
            "engine 1 has not answered `sleep` (#n): nothing that its rule does answers it (`apply`)",
        ),
        (
            "[{delay_ms: 10}, {apply: true}]",
            "engine 1 has not answered `sleep` (#n): nothing that its rule does answers it"
            " (`delay_ms`, `apply`)",
        ),
        (
            "[{delay_ms: 10}, {hang: true}, {apply: true}]",
            "engine 1 holds its reply to `sleep` (#n) for ever (`hang: true`)",
        ),
    ],
)
def test_reply_that_never_comes_is_told_by_the_action_that_keeps_it(do, told):
    rules = f"engines:\n  - {{engine: 1, rules: [{{on: utility, do: {do}}}]}}\n"
    assert report(rules + CALL + "open_at_end: [u]\n")[1:] == [
        f"  {told}",
        "  `u` (sleep) is open, since #n",
    ]


def test_tokens_that_do_not_come_are_told_by_the_stream_that_pauses():
    story = STREAM + (
        "steps:\n  - call: {id: a, rank: 0}\n"
        "  - wait: {event: call-output, request: a, count: 4}\n  - open: more\n"
    )
    assert report(story) == [
        "it has waited since #n, for 120 s: 2 of 4 × call-output of a came, the last at #n",
        "  engine 0 holds request `a` (#n) at gate `more`, 2 tokens sent, which step 2 (`open`) opens,"
        " behind this one",
        "  `a` (call) is open, since #n",
    ]


def test_stream_without_an_end_is_told():
    rules = (
        "engines:\n  - {engine: 0, rules: [{on: add, do: {stream: {tokens: 1, finish: null}}}]}\n"
    )
    steps = "steps:\n  - call: {id: a, rank: 0}\n  - finish: a\nopen_at_end: [a]\n"
    told = "  engine 0 holds request `a` (#n) without an end (`finish: null`), 1 token sent"
    assert report(rules + steps)[1] == told


def test_event_that_nothing_can_bring_is_told_with_what_came_near():
    assert report("steps:\n  - wait: {event: abort, engine: 1, count: 2}\n") == [
        "it has waited since #n, for 120 s: 0 of 2 × abort at engine 1 came, and no other `abort` "
        "either",
        "  every engine has answered what it got, and nobody waits at a gate; no call is open: it "
        "could only come from the frontend, by a timer",
    ]
    near = report("steps:\n  - call: {id: a, rank: 0}\n  - wait: {event: add, engine: 1}\n")
    assert near[0].startswith(
        "it has waited since #n, for 120 s: 0 of 1 × add at engine 1 came; 1 × `add` that is another,"
        " the last #n engine 0 <- ADD request_id="
    )


def test_engine_step_at_a_gate_is_told_though_its_wait_ended_with_the_step():
    step = "steps:\n  - engine: {engine: 1, do: [{hang: go}, {stats: {}}]}\n  - open: go\n"
    assert report(step) == [
        "it has waited since #n, for 120 s: the engines have not done what it tells them, and wait at "
        "gate `go`, which step 1 (`open`) opens, behind this one"
    ]
    for_ever = "steps:\n  - engine: {engine: 1, do: [{hang: true}]}\n"
    assert report(for_ever)[0].endswith("are at `hang: true`, which is for ever")
    slow = "steps:\n  - open: h\n  - engine: {engine: 1, do: [{hang: h}, {delay_ms: 500000}]}\n"
    assert report(slow)[0].endswith("the engines have not done what it tells them")


def test_fence_is_told_with_the_engine_that_is_at_work():
    story = (
        "engines:\n  - {engine: 1, rules: [{on: utility, do: [{delay_ms: 500000}, {default: true}]}]}\n"
        "steps:\n  - utility: {id: u, method: sleep}\n  - wait: {event: utility, engine: 1}\n"
        "  - fence: true\n"
    )
    first, second, *_ = report(story)
    assert first.endswith(
        "not all that was sent has been acted on: engines are at work that waits for nothing scripted"
    )
    assert second.startswith("  engine 1 holds its reply to `sleep` (#n) in, or behind, `delay_ms")
    told_to = "steps:\n  - engine: {engine: 1, background: true, do: {delay_ms: 500000}}\n  - fence: true\n"
    assert report(told_to)[1] == "  engine 1 is at work"


def test_engine_that_stands_still_is_told_once_with_its_gate():
    story = (
        "steps:\n  - engine: {engine: 1, do: {stall: go}}\n  - utility: {id: u, method: sleep}\n"
        "  - finish: u\n  - open: go\n"
    )
    assert report(story)[1:] == [
        "  engine 1 stands still since #n, at gate `go`, which step 3 (`open`) opens, behind this one",
        "  `u` (sleep) is open, since #n",
    ]


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("{engine: 1, frames: add, hold: held}", "ADDs to engine 1 are held there"),
        ("{hold: held}", "messages to all engines are held there"),
    ],
)
def test_messages_that_a_link_holds_are_told_with_the_step_that_holds_them(link, told):
    story = (
        f"steps:\n  - link: {link}\n  - call: {{id: b, rank: 1}}\n  - finish: b\n  - open: held\n"
    )
    assert report(story)[1:] == [
        f"  gate `held` is closed, which step 3 (`open`) opens, behind this one: {told} (step 0)",
        "  `b` (call) is open, since #n: no engine has got it",
    ]


def test_engines_that_wait_for_each_other_are_told_with_what_each_is_at():
    story = (
        "topology: {coordinator: in-process, waves: lockstep}\n"
        "engines:\n  - {engine: 1, rules: [{on: start_wave, do: {drop: true}}]}\n"
        "steps:\n  - call: {id: a, rank: 0}\n  - finish: a\nopen_at_end: [a]\n"
    )
    told = report(story)
    assert told[1] == "  engine 0 has not ended request `a` (#n)"
    assert told[-2].startswith("  engine 0: running, wave 0, ")
    assert told[-1].startswith("  engine 1: not running, wave 0, no requests, waits for a message")


def test_startup_that_does_not_end_is_told_with_the_engine_that_joins_later():
    story = (
        "topology: {config: {ready_timeout_s: 600}}\n"
        "engines:\n  - {engine: 1, join: {gate: late}}\nsteps:\n  - connect: true\n  - open: late\n"
    )
    assert report(story) == [
        "it has waited since #n, for 120 s: startup has neither succeeded nor failed",
        "  engine 1 has not joined",
        "  gate `late` is closed, which step 1 (`open`) opens, behind this one: engine 1 joins only "
        "then",
    ]


def test_callers_of_a_load_are_told_by_one_of_them_and_few_of_the_rest():
    story = STREAM.replace("engine: 0, ", "") + (
        "steps:\n  - load: {clients: 12, requests: 12}\nopen_at_end: [more]\n"
    )
    told = report(story)
    assert told[0].endswith("12 callers had not ended, such as `load1-0-0`")
    assert "  … and 4 more messages that are not answered" in told
    assert len(told) < 16


def test_calls_that_are_many_are_told_by_the_first_of_them():
    calls = "".join(f"  - utility: {{id: u{n}, method: sleep}}\n" for n in range(11))
    told = report(HOLD + f"steps:\n{calls}  - finish: [u0, u1, u2, u3, u4, u5]\n  - open: g\n")
    assert told[0].endswith(": `u0`, `u1`, `u2`, `u3` and 2 more have not ended")
    assert told[-2:] == ["  `u7` (sleep) is open, since #n", "  … and 3 more that are open"]


@pytest.mark.parametrize(
    "story",
    [
        HOLD + CALL + "open_at_end: [g, u]\n",
        "steps:\n  - wait: {event: abort, engine: 1, count: 2}\n",
        "steps:\n  - engine: {engine: 1, do: [{hang: go}]}\n  - open: go\n",
    ],
)
def test_report_names_nothing_of_our_inside(story):
    assert not INTERNALS.search("\n".join(report(story)))


def test_witness_is_where_the_step_began_what_is_held_and_what_is_open():
    played = perform(HOLD + CALL + "open_at_end: [g, u]\n")
    (result,) = played.story.results
    shown = [type(played.records[seq].event) for seq in result.outcome.witness]
    assert shown == [UtilityStarted, StepBegan, UtilitySeen]


# --- what engines have got, by the trace alone ----------------------------------------------


def seen(*events):
    return [Record(seq, seq, event) for seq, event in enumerate(events)]


def add(request_id="r", engine=0, external=None):
    return AddSeen(engine, request_id, external, 0, None, 0, (1,), "", ())


def utility(call_id, method="sleep", engine=0):
    return UtilitySeen(engine, call_id, method, "[]", 0)


def book(*events, rules="[]"):
    scenario = load_unchecked(
        f"engines:\n  - {{engine: 0, rules: {rules}}}\nsteps:\n  - fence: true\n"
    ).scenario
    return WorkBook(scenario, seen(*events))


@pytest.mark.parametrize(
    ("events", "held"),
    [
        ([utility(1), utility(2)], [0, 1]),
        ([utility(1), utility(2), UtilityReplySent(0, 1, "sleep", None, "None")], [1]),
        ([utility(1), UtilityReplySent(1, 1, "sleep", None, "None")], [0]),
        ([add(), OutputSent(0, "r", (1,), None)], [0]),
        ([add(), OutputSent(0, "r", (1,), "length")], []),
        ([add(), FinishedOnlySent(0, ("r",))], []),
        ([add(), AbortSeen(0, ("r",))], []),
        ([add(), AbortSeen(0, ("another",))], [0]),
        ([add(), utility(1), EngineDied(0, "close")], []),
        ([utility(1), EngineDied(0, "close"), EngineJoined(0, b"", coordinator=False), add()], [3]),
    ],
)
def test_message_is_held_until_it_is_answered_or_its_engine_is_gone(events, held):
    assert [each.seq for _, each in book(*events).held()] == held


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ([add()], {}),
        ([add(), OutputSent(0, "r", (1,), "length")], {0: ("answered", 1)}),
        ([add(), FinishedOnlySent(0, ("r",))], {0: ("answered", 1)}),
        ([add(), AbortSeen(0, ("r",))], {0: ("aborted", 1)}),
        ([add(), AbortSeen(0, ("r",)), EngineDied(0, "close")], {0: ("aborted", 1)}),
        ([utility(1), UtilityReplySent(0, 1, "sleep", None, "None")], {0: ("answered", 1)}),
        ([add(), utility(1), EngineDied(0, "close")], {0: ("died", 2), 1: ("died", 2)}),
        ([add(engine=1), EngineRemoved(1)], {0: ("died", 1)}),
        ([add(), EngineDied(1, "close")], {}),
    ],
)
def test_reason_why_a_message_is_held_no_more_is_kept(events, left):
    found = book(*events).left
    assert {seq: (each.why, each.record.seq) for seq, each in found.items()} == left


def test_rule_that_ends_no_request_is_told_with_what_it_does():
    rules = "engines:\n  - {engine: 0, rules: [{on: add, do: [{delay_ms: 10}, {stats: {}}]}]}\n"
    steps = "steps:\n  - call: {id: a, rank: 0}\n  - finish: a\nopen_at_end: [a]\n"
    assert report(rules + steps)[1] == (
        "  engine 0 has not ended request `a` (#n): nothing that its rule does ends it (`delay_ms`,"
        " `stats`)"
    )


def test_actions_that_may_answer_are_ones_that_fit_the_message():
    for kind, verbs in ANSWERS.items():
        assert {action_problem_of(verb, kind) for verb in verbs} == {None}


def action_problem_of(verb, kind):
    given = {"raw": {"frames": []}, "default": True, "finish_only": True, "fail": "x"}
    return action_problem(Action.model_validate({verb: given.get(verb)}), kind)


def test_engine_stands_still_until_it_goes_on_or_dies():
    stalled = EngineStalled(0, "g")
    assert list(book(stalled).stalled) == [0]
    assert list(book(stalled, EngineResumed(0)).stalled) == []
    gone = book(stalled, EngineDied(0, "vanish"))
    assert (list(gone.stalled), list(gone.dead)) == ([], [0])


def test_rules_count_messages_as_engines_do():
    rules = "[{on: utility, nth: 2, do: {hang: true}}, {on: add, request: a, do: {drop: true}}]"
    work = book(
        utility(1), utility(2), add("0-a", external="a"), add("1-b", external="b"), rules=rules
    )
    assert [each.plan.rule for _, each in work.held()] == [None, 0, 1, None]


JOINED = (
    EngineJoined(0, b"", coordinator=False),
    EngineJoined(1, b"", coordinator=False),
)


def told_of(*events, steps="  - call: {id: a}\n  - finish: a\n"):
    """What is told of a call that began, the step that waits for it, and these events."""
    scenario = load_unchecked(f"steps:\n{steps}").scenario
    records = seen(CallStarted("a", "a", None, (), "auto"), StepBegan(1, "finish"), *events)
    stand = Stand(
        scenario=scenario,
        index=1,
        records=records,
        matches=lambda record, match: isinstance(record.event, AddSeen) and match.event == "add",
        ops={"a": Op("a", "call")},
        closed=(),
        opened=(),
        busy=(),
        fence="",
        states=(),
        limit_s=15.0,
        black_box=True,
    )
    return tell(stand)


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (AbortSeen(0, ("a",)), "its engine was told to abort it (ADD #2, ABORT #3)"),
        (EngineDied(0, "close"), "its engine died with it (ADD #2, gone since #3)"),
        (EngineRemoved(0), "its engine was taken away with it (ADD #2, gone since #3)"),
    ],
)
def test_call_that_its_engine_never_ended_is_told_by_what_became_of_it_there(ended, says):
    lines = told_of(add("a"), ended, *JOINED).seen.splitlines()
    assert lines[1] == f"  `a` (call) is open, since #0: {says}"
    answered = "every engine has answered what it got" in lines[2]
    assert answered is isinstance(ended, AbortSeen)


def test_message_that_died_with_an_engine_that_came_back_is_not_told_as_answered():
    lines = told_of(add("a"), EngineDied(0, "close"), *JOINED).seen.splitlines()
    assert lines[2].startswith(
        "  no engine holds a message (1 message went with an engine), nobody"
    )


def test_names_from_the_wire_stay_in_their_line():
    forged = "sleep\nengine 7 did it" + "x" * 500_000
    joined = told_of(*JOINED, utility(1, forged), add(forged, engine=1)).seen
    assert len(joined.splitlines()) == 4
    assert "holds" not in joined
    assert r"engine 0 has not answered `'sleep\nengine 7 did it" in joined
    assert max(map(len, joined.splitlines())) < 250
    near = "  - call: {id: a}\n  - wait: {event: utility, engine: 1}\n"
    told = told_of(*JOINED, utility(1, "a\nb"), steps=near).seen
    assert "method=a\nb" not in told
    assert r"method=a\nb" in told


def test_call_that_its_engine_is_through_with_is_the_frontends_to_end():
    told = told_of(add("a"), OutputSent(0, "a", (1,), "length"), *JOINED)
    assert told.expected == "step 1 (finish a) comes to its end"
    assert told.seen.splitlines() == [
        "it has waited since #1, for 15 s: `a` has not ended",
        "  `a` (call) is open, since #0: its engine is through with it (ADD #2), its caller is not told",
        "  every engine has answered what it got, and nobody waits at a gate: what is missing is the "
        "frontend's to do",
    ]
