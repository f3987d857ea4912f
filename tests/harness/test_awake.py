"""Time in which a process could run, told from time in which it stood still."""

from __future__ import annotations

import signal

import pytest

from harness import awake
from harness.awake import PATIENCE_S, PIECE_S, STOPS, AwakeClock, AwakeLoop, Stops


class Clocks:
    """Stands for the system's: real seconds, and those of CPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.real = self.used = 100.0
        monkeypatch.setattr(awake, "_real", lambda: self.real)
        monkeypatch.setattr(awake, "_used", lambda: self.used)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_wait_that_ends_long_after_it_was_to_is_no_time(clocks: Clocks) -> None:
    clock = AwakeClock()
    began = clock.now()
    assert clock.wait_begins(15.0) == PIECE_S
    clocks.real += 3_600.0
    clock.wait_ended()
    assert clock.now() - began == pytest.approx(PIECE_S)
    assert clock.stood_still_s == pytest.approx(3_600.0 - PIECE_S)


def test_wait_that_ends_a_little_late_on_a_busy_machine_is_time(clocks: Clocks) -> None:
    clock = AwakeClock()
    began = clock.now()
    for _ in range(10):
        clock.wait_begins(None)
        clocks.real += PIECE_S + PATIENCE_S * 0.9
        clock.wait_ended()
    assert clock.now() - began == pytest.approx(10 * (PIECE_S + PATIENCE_S * 0.9))


def test_work_is_time_however_long_it_takes_and_a_stop_in_it_is_none(clocks: Clocks) -> None:
    clock = AwakeClock()
    began = clock.now()
    clocks.real, clocks.used = clocks.real + 20.0, clocks.used + 19.5
    clock.wait_begins(0.1)
    assert clock.now() - began == pytest.approx(20.0)
    clock.wait_ended()
    clocks.real, clocks.used = clocks.real + 60.0, clocks.used + 1.0
    clock.wait_begins(0.1)
    assert clock.now() - began == pytest.approx(21.0)


def test_stop_outside_of_any_wait_is_no_time_as_soon_as_somebody_asks(clocks: Clocks) -> None:
    clock = AwakeClock()
    clocks.real, clocks.used = clocks.real + 2.0, clocks.used + 2.0
    began, lost = clock.now(), STOPS.lost_s
    clocks.real += 60.0
    assert clock.now() == pytest.approx(began)
    assert STOPS.lost_s - lost == pytest.approx(60.0)


def test_time_never_decreases_whenever_a_stop_is_noticed(clocks: Clocks) -> None:
    clock, seen = AwakeClock(), []
    for real, used in [(0.3, 0.1), (40.0, 0.0), (0.9, 0.0), (0.0, 0.0), (5.0, 4.5), (7.0, 0.2)]:
        clock.wait_begins(0.2)
        clocks.real, clocks.used = clocks.real + real, clocks.used + used
        seen.append(clock.now())
        clock.wait_ended()
        seen.append(clock.now())
    assert seen == sorted(seen)


def test_timer_made_right_behind_a_stop_in_a_callback_is_not_late_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = awake._real
    stops, seen, due = [0.0], list[float](), list[float]()
    monkeypatch.setattr(awake, "_real", lambda: real() + sum(stops))
    loop = AwakeLoop()

    def stopped() -> None:
        seen.append(loop.time())
        stops.append(3_600.0)
        due.append(loop.call_later(0.01, end).when())

    def end() -> None:
        seen.append(loop.time())
        loop.stop()

    try:
        loop.call_soon(stopped)
        net = loop.call_later(30.0, loop.stop)
        loop.run_forever()
        net.cancel()
        assert due[0] - seen[0] < PATIENCE_S
        assert len(seen) == 2, "the timer did not run within 30 s"
        assert seen == sorted(seen)
    finally:
        loop.close()


@pytest.mark.parametrize(("asked", "piece"), [(-1.0, 0.0), (0.2, 0.2), (9.0, PIECE_S)])
def test_wait_is_never_longer_than_asked_for_nor_than_a_piece(
    clocks: Clocks, asked: float, piece: float
) -> None:
    assert AwakeClock().wait_begins(asked) == piece


def test_going_on_after_a_stop_is_counted_once_it_is_listened_for() -> None:
    before, stops = signal.getsignal(signal.SIGCONT), Stops()
    try:
        stops.listen()
        stops.listen()
        signal.raise_signal(signal.SIGCONT)
        assert stops.count == 1
    finally:
        signal.signal(signal.SIGCONT, before)


@pytest.fixture
def stops() -> Stops:
    """Stops that no signal reaches."""
    return Stops()


@pytest.mark.parametrize(
    ("continued", "lost_s", "disturbed"), [(1, 3.0, True), (1, 0.0, False), (0, 3.0, False)]
)
def test_stop_disturbs_if_the_process_was_continued_and_time_was_lost(
    stops: Stops, continued: int, lost_s: float, disturbed: bool
) -> None:
    mark = stops.mark()
    stops.count, stops.lost_s = stops.count + continued, stops.lost_s + lost_s
    assert stops.disturbed(mark) is disturbed
    assert not stops.disturbed(stops.mark())


def test_stop_is_told_to_whoever_asks_about_the_part_that_it_was_in(stops: Stops) -> None:
    whole = stops.mark()
    part = stops.mark()
    stops.count, stops.lost_s = 1, 3.0
    assert stops.disturbed(part)
    assert not stops.disturbed(whole)
