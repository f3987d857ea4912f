"""lockstep.comes-to-rest looks at ranks that step for nobody."""

from __future__ import annotations

from client.events import UtilityRegistered
from harness.invariants.lockstep_comes_to_rest import ComesToRest
from harness.trace.events import Event, Fenced, Healed, RunEnded, UtilityStarted
from mock_engines.events import EngineDied, UtilitySeen
from tests.support.lockstep import IDLE, JOINED, born, exchange, moved, spin, verdict
from tests.support.traces import held, unexercised, violated

BEGIN = (*JOINED, *born())
PAUSE = "pause_generation"
IN_VAIN = exchange(goes_on=True)
END = (Fenced("end"), RunEnded(()))


def judge(*events, **parts):
    return verdict(ComesToRest, *BEGIN, *events, **parts)


def test_wave_that_ends_holds():
    found = judge(exchange(unfinished=(0,)), exchange(), Healed(), *IDLE, *END, black=True)
    assert held(found)
    assert found.exercised == 1


def test_ranks_that_spin_at_the_last_look_are_violated():
    found = judge(IN_VAIN, IN_VAIN, Healed(), *IDLE, spin(), *END, black=True)
    assert violated(found, 5, 9)
    assert "no exchange says so" in found.message
    assert found.seen == "engines 0, 1: runs"


def test_report_says_who_claims_work_that_is_not_there():
    claims = exchange(goes_on=True, claimed=(1,))
    found = judge(claims, Healed(), *IDLE, spin(), *END)
    assert violated(found, 4, 8)
    assert "engine 1 says that there is work" in found.message
    assert "exchange 1 (#4), and has no request" in found.seen


def test_report_says_who_was_told_to_pause():
    found = judge(IN_VAIN, IN_VAIN, Healed(), *IDLE, spin(0), *END)
    assert found.message.endswith("engine 0 told to pause, engine 1 not")
    assert "in the last one engine 0 alone did" in found.seen


def call(op: str, *ids: int) -> tuple[Event, ...]:
    """A pause of all engines, as the client sends it."""
    sent = (UtilityRegistered(each, rank, PAUSE) for rank, each in enumerate(ids))
    return (UtilityStarted(op, "pause", "method"), *sent)


def test_report_names_the_pause_that_came_after_all_had_agreed():
    paused = {"pause": "new", "ignores_starts": True}
    agree = exchange(pausing=(0, 1), unfinished=(0,))
    found = judge(
        *(*call("first", 1, 2), *call("second", 3, 4)),
        *(UtilitySeen(0, 1, PAUSE, "[]", 0), UtilitySeen(1, 2, PAUSE, "[]", 0)),
        *(UtilitySeen(0, 3, PAUSE, "[]", 0), UtilitySeen(1, 4, PAUSE, "[]", 0)),
        *(agree, moved(0, running=True, **paused), moved(1, running=True, **paused)),
        moved(1, running=True, pending_pause=True, **paused),
        *(exchange(pausing=(1,)), Healed(), *IDLE, spin(1), *END),
    )
    assert "engine 1 was told to pause again after all had agreed on a pause" in found.message
    assert "engine 0 had got 2 × pause_generation by then (#10, #12)" in found.seen
    assert "engine 1 took pause_generation of 'second' only after that (#17)" in found.seen


def test_report_follows_a_pause_that_one_engine_never_got():
    found = judge(
        *(*call("p", 1, 2), UtilitySeen(0, 1, PAUSE, "[]", 0)),
        moved(0, running=True, pause="new", pending_pause=True),
        *(exchange(pausing=(0,)), exchange(pausing=(0,)), Healed(), *IDLE, spin(0), *END),
    )
    assert "engine 0 took pause_generation of 'p' (#8)" in found.seen
    assert "pause_generation never reached engine 1, though the client sent it (#6)" in found.seen


def test_ranks_that_spun_at_an_earlier_look_hold():
    assert held(judge(IN_VAIN, *IDLE, spin(0), exchange(), Healed(), *IDLE, *END))


def test_ranks_that_never_rest_after_healing_are_violated():
    found = judge(IN_VAIN, Healed(), IN_VAIN, IN_VAIN, RunEnded(()))
    assert violated(found, 6, 7)


def test_work_that_goes_on_is_another_matter():
    busy = exchange(unfinished=(0,))
    assert unexercised(judge(Healed(), IN_VAIN, busy, busy, RunEnded(())))


def test_spin_that_no_look_followed_is_not_judged():
    found = judge(exchange(goes_on=False), *IDLE, spin(), RunEnded(()))
    assert found.verdict == "not_judged"
    assert "before it could be seen" in found.reason


def test_ranks_of_which_one_died_are_not_judged():
    gone = EngineDied(1, "close")
    assert unexercised(judge(gone, Healed(), IDLE[0], spin(), *END))
