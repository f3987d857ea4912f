"""Who hears a signal: the innermost, and afterwards whoever did before."""

import signal

from harness.interruption import heard


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
