"""Who hears a signal: the innermost, and afterwards whoever did before."""

import select
import signal
import sys
import weakref

import pytest

from harness import interruption
from harness.interruption import heard

SAFETY_S = 60.0


def test_innermost_listener_hears_a_signal_and_the_outer_one_does_again_afterwards():
    said = []
    before = signal.getsignal(signal.SIGTERM)
    with heard(lambda *_: said.append("outer")):
        signal.raise_signal(signal.SIGTERM)
        with heard(lambda *_: said.append("inner")):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert said == ["outer", "inner", "outer"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_handler_that_somebody_else_set_meanwhile_is_replaced_and_comes_back():
    said = []

    def theirs(*_args):
        said.append("theirs")

    with heard(lambda *_: said.append("outer")):
        ours = signal.signal(signal.SIGINT, theirs)
        with heard(lambda *_: said.append("inner")):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, ours)
        signal.raise_signal(signal.SIGINT)
    assert said == ["inner", "theirs", "outer"]


class Deleted:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def forgotten():
    thing = Deleted()
    del thing


def released():
    thing = type("Thing", (), {})()
    kept = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    return kept


@pytest.mark.parametrize("swallows", [forgotten, released])
def test_interruption_where_nothing_can_be_raised_comes_again(swallows, capfd):
    hook = sys.unraisablehook

    def waits():
        with heard(signal.default_int_handler):
            swallows()
            select.select([], [], [], SAFETY_S)

    with pytest.raises(KeyboardInterrupt):
        waits()
    assert sys.unraisablehook is hook
    assert capfd.readouterr().err == ""


def test_other_errors_that_cannot_be_raised_are_told_as_ever(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with heard(signal.default_int_handler):
        thing = type("Thing", (), {"__del__": lambda _: 1 / 0})()
        del thing
    assert [each.exc_type for each in told] == [ZeroDivisionError]


def test_interruption_that_comes_while_python_tells_of_another_waits(monkeypatch):
    passed = []

    def waits():
        with heard(signal.default_int_handler):
            monkeypatch.setattr(interruption, "_swallowed", True)
            signal.raise_signal(signal.SIGINT)
            passed.append("raised")
            monkeypatch.setattr(interruption, "_swallowed", False)
            select.select([], [], [], SAFETY_S)

    with pytest.raises(KeyboardInterrupt):
        waits()
    assert passed == ["raised"]
