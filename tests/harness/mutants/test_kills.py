"""Each mutant is killed on sim by its own invariant, in a scenario that holds without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.hunting.hunt import hunt
from harness.hunting.plan import release_for
from harness.hunting.prey import kills
from harness.invariants import discover as discover_invariants
from harness.mutants import discover, find_mutant
from harness.mutants.base import FAMILIES
from harness.runner import RunOptions, run_scenario
from harness.scenario import selection
from harness.verdict import ERROR, HELD

KILLERS = {
    # fan-out
    "earliest-failure-wins": "utility/error-in-engine-order",
    "engines-asked-until-one-refuses": "utility/undo-reaches-every-engine",
    "fail-fast-fan-out": "utility/compensation-after-a-failed-add-lora",
    "failures-left-out": "utility/undo-reaches-every-engine",
    "last-engine-not-awaited": "utility/a-stalled-engine-holds-the-call",
    "results-in-order-of-arrival": "utility/a-stalled-engine-holds-the-call",
    # waiters
    "call-ids-used-again": "utility/many-calls-at-once",
    "stray-reply-to-the-oldest-waiter": "utility/double-and-unknown-replies",
    "utility-waiter-leaked-on-cancel": "utility/cancelled-then-late-replies",
    "utility-waiter-leaked-on-failure": "utility/cannot-be-encoded",
    # registry
    "duplicate-id-admitted": "requests/duplicate-id-is-refused",
    "id-free-before-its-abort-left": "requests/id-is-taken-until-its-abort-left",
    "late-drop-releases-a-namesake": "requests/late-drop-leaves-the-next-of-its-name-alone",
    "load-leaks-with-aborts": "routing/in-flight-is-zero-after-cancellations",
    "request-leaked-on-cancel-before-send": "requests/cancelled-then-aborted",
    # streams and aborts
    "abort-names-one-of-many": "requests/explicit-abort",
    "abort-to-every-engine": "requests/aborted-then-left",
    "empty-final-output-skipped": "requests/explicit-abort",
    "final-output-twice": "requests/output-after-the-end",
    "finished-ids-before-outputs": "hostile/ends-count-once-in-routing",
    "finished-without-output-hangs": "requests/finished-without-a-final-output",
    "newest-output-first": "requests/reader-slower-than-its-engine",
    "request-that-is-over-aborted": "requests/aborted-then-left",
    "slow-send-tried-again": "requests/sent-once-although-the-send-is-slow",
    "stray-output-to-the-last-reader": "hostile/a-thousand-rows-for-nobody",
    "stream-dropped-without-abort": "requests/cancelled-at-a-stalled-engine",
    # routing
    "grpc-rank-ignored": "routing/grpc-rank-text-is-trimmed",
    "rank-taken-for-a-position": "routing/global-start-index",
    "rank-truncated": "routing/grpc-rank-not-connected",
    "removed-engine-still-used": "elastic/removed-rank-refused",
    "stats-index-truncated": "routing/stats-of-an-index-beyond-two-bytes",
    "stats-replace-in-flight": "routing/what-is-in-flight-counts-beside-stats",
    "ties-to-the-last-engine": "routing/stats-of-an-index-beyond-two-bytes",
    "unconnected-rank-looks-gone": "routing/error-names-the-connected-ranks",
    "waiting-not-weighted": "routing/waiting-weighs-more-up-to-0-26",
    # aggregation
    "any-instead-of-all": "utility/reset-prefix-cache-one-false",
    "first-engine-only-is-sleeping": "utility/is-sleeping-disagrees",
    "majority-wins": "utility/one-of-three-sleeps",
    "nil-results-dropped": "hostile/a-thousand-replies-to-one-call",
    # coordinator
    "completions-counted": "waves/wave-complete-advances-once",
    "coordinator-rewinds": "waves/rewind-under-a-flood-of-waves",
    "every-request-is-a-first-one": "waves/first-requests-at-once-wake-once",
    "first-request-leaves-running-false": "waves/rewind-under-a-flood-of-waves",
    "first-request-never-told": "waves/wave-lasts-as-long-as-its-work",
    "first-request-wakes-its-holder": "waves/current-first-request",
    "frontend-still-starts-waves": "findings/a-wave-at-the-end-of-its-range",
    "running-wave-started-again": "waves/engine-notified-stale-wave",
    "stale-first-request-leaves-out-target": "waves/stale-first-request",
    "start-wave-to-its-sender": "waves/engine-notified-stale-wave",
    "wave-counter-wraps": "findings/a-wave-at-the-end-of-its-range",
    # external coordinator
    "counts-of-removed-engines-kept": "elastic/shrink-under-load",
    "external-completions-counted": "waves/external-coordinator-restarts",
    "external-coordinator-rewinds": "waves/external-stale-first-request",
    "external-first-request-leaves-running-false": "waves/external-coordinator-restarts",
    "external-first-request-wakes-its-holder": "waves/external-first-request",
    "external-gate-opens-at-once": "handshake/external-one-engine-never-subscribes",
    "external-stale-request-leaves-out-target": "waves/external-stale-first-request",
    "external-start-wave-not-passed-on": "waves/external-engine-start-is-passed-on",
    "new-engines-not-counted": "elastic/coordinator-counts-follow",
    "publish-read-one-wave-ahead": "waves/external-coordinator-restarts",
    # handshake
    "gate-opens-at-the-first-subscription": "handshake/one-engine-never-subscribes",
    "gate-opens-one-short": "handshake/one-engine-never-subscribes",
    "hello-twice-accepted": "handshake/hello-twice-although-all-come",
    "missing-key-passed-over": "handshake/required-key-missing",
    "startup-ends-one-engine-short": "handshake/engine-never-comes",
    "stranger-admitted": "handshake/bootstrapped-stranger-is-refused",
    # codec
    "engine-abort-shown-as-stop": "hostile/put-to-sleep-in-mid-stream",
    "exclude-nobody-is-a-number": "waves/external-stale-first-request",
    "one-token-of-each-output": "requests/reader-slower-than-its-engine",
    "repetition-shown-as-stop": "requests/finish-reasons",
    "undecodable-output-passed-over": "hostile/final-output-with-an-impossible-token",
    # engine wave rules
    "engine-starts-in-silence": "waves/wave-lasts-as-long-as-its-work",
    "every-rank-reports-the-end": "waves/wave-lasts-as-long-as-its-work",
    "wake-up-read-backwards": "waves/wave-lasts-as-long-as-its-work",
    "wave-ends-under-a-busy-rank": "waves/wave-lasts-as-long-as-its-work",
    # lockstep
    "aborted-request-keeps-its-vote": "lockstep/an-abort-lets-the-group-rest",
    "cleared-cache-loses-what-was-frozen": "lockstep/what-was-frozen-goes-on",
    "draining-takes-up-new-requests": "lockstep/a-pause-drains-and-lets-nothing-begin",
    "end-by-a-pause-not-reported": "lockstep/a-pause-after-a-wave-of-one-rank",
    "every-rank-ends-the-wave": "lockstep/ranks-step-and-rest-together",
    "idle-rank-counts-no-wave": "lockstep/a-pause-after-a-wave-of-one-rank",
    "last-request-never-uncounted": "lockstep/an-abort-lets-the-group-rest",
    "left-out-rank-is-woken": "lockstep/ranks-step-and-rest-together",
    "pause-answered-at-once": "lockstep/a-pause-drains-and-lets-nothing-begin",
    "announcer-stays-asleep": "lockstep/left-before-the-first-step",
    "current-wave-begun-in-silence": "lockstep/first-requests-of-two-waves",
    "drafter-skipped-near-the-end": "lockstep/an-end-beside-a-busy-rank",
    "empty-step-counts-as-run": "lockstep/aborted-beside-a-busy-rank",
    "exchange-by-own-steps": "lockstep/one-rank-has-work-for-many-steps",
    "half-awake-engine-resumes": "lockstep/half-awake-engines-run-nothing",
    "half-awake-rank-skips-its-dummy": "lockstep/half-awake-engines-run-nothing",
    "only-the-first-wave-begun-for-all": "lockstep/first-requests-of-two-waves",
    "pause-returns-early": "lockstep/a-request-that-comes-while-paused",
    "paused-rank-follows-wake-ups": "lockstep/a-request-that-comes-while-paused",
    "paused-rank-ignores-wake-ups": "lockstep/a-wake-up-that-a-peer-still-needs",
    "rank-leaves-when-it-is-done": "lockstep/a-rank-that-leaves-beside-a-busy-one",
    "report-behind-dropped": "lockstep/external-report-of-a-rank-that-is-behind",
    "resume-waits-for-nobody": "lockstep/only-one-rank-has-queued-work",
    "waiting-request-needs-no-dummy": "lockstep/one-rank-has-work-for-many-steps",
    "wake-up-of-a-past-wave-followed": "lockstep/a-wake-up-that-comes-after-its-wave",
    "wake-up-taken-for-running": "lockstep/external-wake-up-that-nobody-follows",
    "new-rank-heeds-starts": "elastic/request-during-a-change-waits",
    "new-rank-keeps-wave-zero": "elastic/stale-request-at-a-new-rank",
    # elastic changes
    "leaving-rank-not-aborted": "elastic/shrink-under-load",
    "new-engine-used-before-the-resume": "elastic/new-rank-before-its-resume",
    "size-not-announced": "elastic/grow-under-load",
    # health
    "death-of-an-engine-ignored": "lifecycle/engine-core-dead",
    "failure-ends-one-engine-only": "hostile/empty-frame",
    "late-output-is-fatal": "hostile/a-thousand-rows-for-nobody",
    "latest-error-wins": "lifecycle/first-error-sticks",
    "reader-not-woken-by-a-failure": "hostile/empty-frame",
    "unexpected-reply-is-fatal": "hostile/a-thousand-replies-to-one-call",
    "utility-calls-survive-a-failure": "hostile/truncated-output",
    # shutdown
    "request-admitted-after-the-end": "lifecycle/client-closed-is-the-cause",
    "shutdown-tells-no-caller": "lifecycle/shutdown-with-work-in-flight",
    "socket-left-open": "lifecycle/shutdown-with-work-in-flight",
    "task-left-running": "waves/current-first-request",
}
"""Mutant → a scenario that kills it."""
SEARCHED = {
    "late-drop-releases-a-namesake": 20,
    "newest-output-first": 20,
    "request-that-is-over-aborted": 20,
    "every-request-is-a-first-one": 200,
    "report-behind-dropped": 200,
}
"""Mutants that the plain order does not show → schedules of ``auto`` that do."""

EACH = [
    pytest.param(name, marks=pytest.mark.slow) if SEARCHED.get(name, 1) > 100 else name
    for name in KILLERS
]


def played(name: str) -> RunOptions:
    schedules = SEARCHED.get(name, 1)
    strategy = "auto" if name in SEARCHED else "fifo"
    return RunOptions(schedules=schedules, strategy=strategy)


def the_scenario(name: str):
    (loaded,) = selection.load_all(selection.select([KILLERS[name]]))
    release = release_for(find_mutant(name), loaded.scenario)
    assert release is not None
    return loaded, release.release


def test_every_mutant_has_a_scenario_here():
    assert sorted(KILLERS) == [mutant.id for mutant in discover()]
    assert len(KILLERS) >= 40


def test_every_family_has_mutants_and_no_other_is_named():
    assert {mutant.family for mutant in discover()} == set(FAMILIES)


def test_every_invariant_kills_a_mutant():
    killers = {mutant.killed_by for mutant in discover()}
    assert killers == {invariant.id for invariant in discover_invariants()}


@pytest.mark.parametrize("name", EACH)
def test_mutant_is_killed_by_its_own_invariant_and_not_by_a_crash(name):
    loaded, release = the_scenario(name)
    options = played(name)
    result = hunt(loaded, replace(options, mutant=name, profile=release))
    assert result.status != ERROR
    assert result.error is None
    assert kills(result.verdicts, find_mutant(name).killed_by)
    assert (result.schedules > 1) == (name in SEARCHED)


@pytest.mark.parametrize("name", EACH)
def test_scenario_that_kills_a_mutant_holds_without_it(name):
    loaded, release = the_scenario(name)
    result = run_scenario(loaded, replace(played(name), profile=release))
    assert result.status == HELD, (result.reason, result.error)
    assert not kills(result.verdicts, find_mutant(name).killed_by)
