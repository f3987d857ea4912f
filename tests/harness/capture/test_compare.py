"""Two captures side by side: equal but for chance, or different and why."""

from __future__ import annotations

import functools
import json
from dataclasses import replace

import pytest

from client.protocol.codec import Codec
from client.protocol.messages import StartDpWave, UtilityCall
from client.protocol.profiles import profile_for
from harness.capture.compare import compare
from harness.capture.compare_report import LINES_MAX, json_of, text_of
from harness.capture.normal import Normal
from harness.capture.recording import Frame

CODEC = Codec(profile_for("0.33.0"))


def edited(capture, **changes):
    (story,) = capture.stories
    return replace(capture, stories=(replace(story, **changes),))


def with_event(story, name, **fields):
    return tuple(
        {**event, "fields": {**event["fields"], **fields}} if event["event"] == name else event
        for event in story.events
    )


def test_two_captures_of_one_release_are_equal(capture_of):
    whole = capture_of("0.33.0")
    again = capture_of.__wrapped__("0.33.0")
    difference = compare(whole, again)
    assert difference.is_empty
    assert len(difference.compared) >= 10
    assert list(text_of(whole, again, difference))[-1] == "no difference"


def test_what_changed_between_releases_is_named(capture_of):
    first, second = capture_of("0.31.0"), capture_of("0.33.0")
    difference = compare(first, second)
    by_name = {change.name: change for change in difference.fields}
    assert by_name["utility pause_scheduler"].only == "a"
    assert by_name["utility pause_generation"].only == "b"
    fields = {field.name: field for field in by_name["outputs"].fields}
    assert fields["weight_version"].before is None
    assert fields["weight_version"].after.position == 8
    assert fields["outputs[]"].before.lengths == {18}
    waves = [c for c in difference.order if c.story == "capture/12-waves"]
    assert {(c.engine, c.socket) for c in waves} == {
        (0, "coordinator-input"),
        (1, "coordinator-input"),
    }
    assert "-START_DP_WAVE wave 0 exclude 0" in waves[0].lines
    assert "capture/12-waves" in difference.changed


def test_fields_that_only_moved_are_told_apart(capture_of):
    names = ("capture/01-generate",)
    difference = compare(capture_of("0.25.0", *names), capture_of("0.26.0", *names))
    (outputs,) = [c for c in difference.fields if c.name == "outputs"]
    moved = {f.name: (f.before.position, f.after.position) for f in outputs.fields if f.moved}
    assert moved["outputs[].trace_headers"] == (9, 10)
    text = "\n".join(
        text_of(capture_of("0.25.0", *names), capture_of("0.26.0", *names), difference)
    )
    assert "+ outputs[].ec_transfer_params at [9]: nil" in text
    assert "moved: outputs[].trace_headers [9]->[10]" in text


def test_another_answer_is_a_difference_with_both_values(capture_of):
    capture = capture_of("0.33.0", "capture/03-leave")
    (story,) = capture.stories
    other = edited(capture, events=with_event(story, "CallEnded", outcome="failed", status=500))
    difference = compare(capture, other)
    assert {(c.op, c.fact, c.before, c.after) for c in difference.answers} == {
        ("gone", "outcome", "cancelled", "failed"),
        ("gone", "status", None, 500),
    }
    assert (difference.fields, difference.order) == ((), ())


def test_bodies_are_compared_key_by_key_without_times_and_ids(capture_of):
    capture = capture_of("0.33.0", "capture/03-leave")
    (story,) = capture.stories

    def answer(**body):
        event = {
            "seq": 1,
            "time_us": 1,
            "event": "RequestEnded",
            "fields": {"op": "r", "outcome": "finished", "status": 200, "body": json.dumps(body)},
        }
        return edited(capture, events=(*story.events, event))

    deep = {"a": functools.reduce(lambda inner, _: [inner], range(900), 1)}
    assert compare(answer(**deep), answer(**deep)).answers == ()
    first = answer(id="cmpl-0123456789abcdef", created=1_790_000_000, data=[{"n": 1}])
    second = answer(id="cmpl-fedcba9876543210", created=1_790_000_009, data=[{"n": 2}])
    (change,) = compare(first, second).answers
    assert (change.fact, change.before, change.after) == ("body.data[0].n", 1, 2)


def test_another_order_at_one_socket_is_a_difference(capture_of):
    capture = capture_of("0.33.0", "capture/09-pause")
    (story,) = capture.stories
    frames = list(story.frames)
    here = [
        place
        for place, f in enumerate(frames)
        if (f.engine, f.socket, f.direction) == (0, "input", "to-engine")
    ]
    frames[here[0]], frames[here[1]] = frames[here[1]], frames[here[0]]
    difference = compare(capture, edited(capture, frames=tuple(frames)))
    assert [(c.engine, c.socket) for c in difference.order] == [(0, "input")]
    assert difference.fields == ()


def test_a_message_too_many_is_a_difference(capture_of):
    capture = capture_of("0.33.0", "capture/12-waves")
    (story,) = capture.stories
    extra = CODEC.encode_start_wave(StartDpWave(9, None))
    frame = Frame(999, 0, 1, "coordinator-input", "to-engine", tuple(extra))
    difference = compare(capture, edited(capture, frames=(*story.frames, frame)))
    (change,) = difference.order
    assert change.lines[-1] == "+START_DP_WAVE wave 9 exclude None"


def test_fences_are_no_part_of_the_comparison(capture_of):
    capture = capture_of("0.33.0", "capture/09-pause")
    (story,) = capture.stories
    fences = [
        UtilityCall(0, 1_000, "wavecheck_fence"),
        UtilityCall(0, 1_001, "collective_rpc", ["wavecheck_fence", None, [], {}]),
    ]
    extra = tuple(
        Frame(999, 0, 0, "input", "to-engine", tuple(CODEC.encode_utility(call))) for call in fences
    )
    assert compare(capture, edited(capture, frames=(*extra, *story.frames))).is_empty


def test_a_story_of_one_capture_only_is_named(capture_of):
    one = capture_of("0.33.0", "capture/03-leave")
    two = capture_of("0.33.0", "capture/03-leave", "capture/08-lora")
    difference = compare(one, two)
    assert [(c.story, c.before, c.after) for c in difference.stories] == [
        ("capture/08-lora", "not in the capture", "played")
    ]
    assert not difference.is_empty
    skipped = capture_of("0.33.0", "capture/14-admin-answers")
    assert compare(skipped, skipped).is_empty


def test_long_sections_are_cut_and_shown_on_demand(capture_of):
    first, second = capture_of("0.22.0"), capture_of("0.33.0")
    difference = compare(first, second)
    short = list(text_of(first, second, difference))
    whole = list(text_of(first, second, difference, everything=True))
    assert any("more lines; --all shows them" in line for line in short)
    assert not any("more lines" in line for line in whole)
    assert len(short) < 4 * LINES_MAX < len(whole) + LINES_MAX
    json.dumps(json_of(first, second, difference))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("tcp://127.0.0.1:40123 refused", "<address> refused"),
        ("at localhost:8000, again", "at <address>, again"),
        ("2026-11-29T20:55:19.123Z INFO", "<time> INFO"),
        ('"created":1790000000}', '"created":<time>}'),
        ("open /var/lib/models/one: no", "open <path>: no"),
        ("id 3f2b8c1d-0000-4000-8000-0123456789ab", "id <uuid>"),
        ("cmpl-x-0a1b2c3d ended", "cmpl-x-<id> ended"),
        ("src/lib.rs:12:34: panic", "src/lib.rs:<place>: panic"),
        ("rank 7 of 2, status 400, 17 tokens", "rank 7 of 2, status 400, 17 tokens"),
    ],
)
def test_what_chance_decides_is_replaced_and_the_rest_kept(capture_of, text, plain):
    (story,) = capture_of("0.33.0", "capture/03-leave").stories
    assert Normal(story).text(text) == plain


def test_ids_of_requests_become_the_names_of_their_calls(capture_of):
    (story,) = capture_of("0.33.0", "capture/03-leave").stories
    assert Normal(story).text("request gone failed, not gone-2") == (
        "request <gone> failed, not gone-2"
    )
