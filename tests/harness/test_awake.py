"""Time in which a process could run, told from time in which it stood still."""

from __future__ import annotations

import signal

import pytest

from harness import awake
from harness.awake import PATIENCE_S, PIECE_S, AwakeClock, Stops


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
