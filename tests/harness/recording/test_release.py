"""Which release a session speaks."""

from __future__ import annotations

import msgpack
import pytest

from client.protocol.profiles import RELEASES, profile_for
from harness.capture.recording import FROM_ENGINE, INPUT, OUTPUT, TO_ENGINE, Frame
from harness.recording.release import ReleaseGuess
from mock_engines.ready import default_values


def registration(release, **changes):
    values = default_values(profile_for(release), rank=0, data_parallel_size=1)
    values = {key: value for key, value in {**values, **changes}.items() if value != "absent"}
    return Frame(0, 0, 0, INPUT, FROM_ENGINE, (msgpack.packb(values),))


@pytest.mark.parametrize("release", RELEASES[2:])
def test_engines_that_say_their_release_are_believed(release):
    guess = ReleaseGuess()
    guess.take(registration(release))
    assert (guess.release, guess.why) == (release, "as the engines say")


@pytest.mark.parametrize(
    ("said", "near"),
    [("0.33.1.dev7+gabc", "0.33.0"), ("0.27.5", "0.27.1"), ("1.4", "0.33.0"), ("0.9", "0.22.0")],
)
def test_an_unknown_release_is_taken_for_the_nearest_older_one(said, near):
    guess = ReleaseGuess()
    guess.take(registration("0.33.0", vllm_version=said))
    assert (guess.release, guess.why) == (near, f"the nearest to {said}")


def test_keys_and_lengths_narrow_it_down_where_nobody_says_it():
    guess = ReleaseGuess()
    assert "not told" in guess.why
    guess.take(registration("0.22.0"))
    before = guess.release
    guess.take(Frame(0, 0, 0, INPUT, TO_ENGINE, (b"\0", msgpack.packb([None] * 20))))
    assert (before, guess.release) == ("0.22.1", "0.22.1")
    assert "0.22.0 to 0.22.1 fit" in guess.why


@pytest.mark.parametrize(("fields", "newest"), [(20, "0.27.1"), (21, "0.30.0"), (22, "0.33.0")])
def test_the_length_of_an_add_tells_the_newest_release_that_writes_it(fields, newest):
    guess = ReleaseGuess()
    guess.take(Frame(0, 0, 0, INPUT, TO_ENGINE, (b"\0", msgpack.packb([None] * fields))))
    assert guess.release == newest


def test_what_is_no_message_tells_nothing():
    guess = ReleaseGuess()
    for body in (b"", b"\xc1", b"\x93", msgpack.packb("text"), msgpack.packb([None] * 3)):
        guess.take(Frame(0, 0, 0, INPUT, TO_ENGINE, (b"\0", body)))
        guess.take(Frame(0, 0, 0, INPUT, FROM_ENGINE, (body,)))
        guess.take(Frame(0, 0, 0, OUTPUT, FROM_ENGINE, (body,)))
    guess.take(Frame(0, 0, 0, INPUT, TO_ENGINE, (b"\0",)))
    assert guess.release == RELEASES[-1]


def test_a_release_that_is_said_is_not_guessed():
    guess = ReleaseGuess("0.25.0")
    guess.take(registration("0.33.0"))
    assert (guess.release, guess.why) == ("0.25.0", "as --profile says")
