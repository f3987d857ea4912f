"""The tape: recording, replaying, where a replay differs, and its stored form."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness.tape
from harness.strategies import make_strategy
from harness.tape import Recorder, Replayer, Tape, TapeDivergence, TapeFormatError

LABELLED = Tape(((1, 2), (0, 3)), (("a", "b"), ("a", "b", "c")))

choices = st.integers(2, 5).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n)))
tapes = st.lists(choices, max_size=40).map(lambda pairs: Tape(tuple(pairs)))


def names(*texts):
    return lambda: list(texts)


def test_recorder_writes_what_its_strategy_chose():
    recorder = Recorder(make_strategy("random", 3, 0))
    chosen = [recorder.choose(n) for n in (2, 3, 4)]
    assert recorder.tape == Tape(tuple(zip(chosen, (2, 3, 4), strict=True)))


def test_recorder_keeps_the_labels_that_it_is_shown():
    recorder = Recorder(make_strategy("fifo", 0, 0))
    recorder.choose(2, names("a", "b"))
    assert recorder.tape == Tape(((0, 2),), (("a", "b"),))
    assert recorder.tape.chosen == ("a",)


def test_replayer_answers_as_the_tape_does():
    player = Replayer(LABELLED)
    assert player.choose(2, names("a", "b")) == 1
    assert player.choose(3) == 0
    player.finish()


def test_replayer_stops_at_another_number_of_options():
    player = Replayer(LABELLED)
    player.choose(2)
    with pytest.raises(TapeDivergence) as caught:
        player.choose(2, names("a", "c"))
    difference = caught.value
    assert (difference.position, difference.expected, difference.seen) == (1, 3, 2)
    assert difference.expected_labels == ("a", "b", "c")
    assert difference.seen_labels == ("a", "c")
    assert "choice 1:\n  expected: 3 options: a, b, c\n  seen:     2 options: a, c" in str(
        difference
    )


def test_replayer_without_labels_still_checks_the_number_of_options():
    with pytest.raises(TapeDivergence, match="expected: 2 options\n  seen:     5 options"):
        Replayer(Tape(((1, 2),))).choose(5)


def test_replayer_stops_at_other_labels_of_the_same_number():
    with pytest.raises(TapeDivergence) as caught:
        Replayer(LABELLED).choose(2, names("a", "x"))
    assert caught.value.seen_labels == ("a", "x")


def test_replayer_ignores_labels_where_tape_or_run_has_none():
    assert Replayer(Tape(LABELLED.choices)).choose(2, names("x", "y")) == 1
    assert Replayer(LABELLED).choose(2) == 1


def test_strict_replayer_refuses_to_go_on_after_the_end():
    player = Replayer(Tape())
    with pytest.raises(TapeDivergence, match="the end of the tape"):
        player.choose(2)


def test_lenient_replayer_goes_on_first_in_first_out():
    player = Replayer(Tape(((1, 2),)), strict=False)
    assert [player.choose(2), player.choose(2), player.choose(9)] == [1, 0, 0]
    player.finish()


def test_strict_replayer_reports_choices_that_were_never_asked_for():
    player = Replayer(LABELLED)
    player.choose(2)
    with pytest.raises(TapeDivergence) as caught:
        player.finish()
    assert (caught.value.position, caught.value.seen) == (1, 0)


def test_json_form_is_compact_and_readable():
    tape = Tape(((0, 2),) * 5 + ((1, 3), (0, 2)))
    assert tape.to_json() == {"format": 1, "choices": "0/2*5 1/3 0/2"}
    assert LABELLED.to_json() == {
        "format": 1,
        "choices": "1/2 0/3",
        "names": ["a", "b", "c"],
        "labels": [[0, 1], [0, 1, 2]],
    }


@given(tapes)
def test_json_form_round_trips(tape):
    assert Tape.from_json(json.loads(json.dumps(tape.to_json()))) == tape
    assert Tape.from_json(json.dumps(tape.to_json())) == tape


def test_words_of_a_tape_are_kept_within_bounds_and_repeats_are_told_across_them(monkeypatch):
    monkeypatch.setattr(harness.tape, "WORDS_MAX", 3)
    monkeypatch.setattr(harness.tape, "_WORDS", harness.tape._Words())
    choices = tuple((0, options) for options in range(2, 12) for _ in range(2))
    text = " ".join(f"0/{options}*2" for options in range(2, 12))
    for _ in range(2):
        assert Tape(choices).choices_as_text() == text
        assert len(harness.tape._WORDS) <= 3
    assert Tape(()).choices_as_text() == ""


def test_json_form_round_trips_with_labels():
    assert Tape.from_json(LABELLED.to_json()) == LABELLED


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("{", "not JSON"),
        ([], "JSON object, not list"),
        ({"choices": ""}, "format None cannot be read"),
        ({"format": 2, "choices": ""}, "format 2 cannot be read, only 1"),
        ({"format": 1}, "are text"),
        ({"format": 1, "choices": "", "extra": 1}, "no key 'extra'"),
        ({"format": 1, "choices": "0/2 1-2"}, "word 1 of the choices is '1-2'"),
        ({"format": 1, "choices": "0/2 2/2"}, "choice 1 is 2 of 2 options"),
        ({"format": 1, "choices": "0/1"}, "choice 0 is 0 of 1 options"),
        ({"format": 1, "choices": "0/2", "names": ["a"]}, "labels of a tape are"),
        ({"format": 1, "choices": "0/2", "names": "ab", "labels": []}, "names of a tape"),
        ({"format": 1, "choices": "0/2", "names": ["a"], "labels": [[0, 1]]}, "choice 0"),
        ({"format": 1, "choices": "0/2", "names": ["a"], "labels": [[0]]}, "do not match"),
        ({"format": 1, "choices": "0/2", "names": ["a"], "labels": [[0, True]]}, "choice 0"),
    ],
)
def test_broken_json_form_is_refused_with_its_fault(form, message):
    with pytest.raises(TapeFormatError, match=message):
        Tape.from_json(form)
