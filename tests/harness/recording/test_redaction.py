"""What may be private is replaced, and nothing else is."""

from __future__ import annotations

import msgpack
import pytest

from client.protocol.messages import Add
from client.protocol.profiles import PROFILES, profile_for
from harness.capture import tree
from harness.capture.explain import decode
from harness.capture.file import read_file
from harness.capture.kinds import KINDS, kind_of_frame
from harness.capture.recording import FROM_ENGINE, INPUT, OUTPUT, TO_ENGINE, Frame
from harness.capture.vectors import load, right_in
from harness.recording.redaction import Redaction
from harness.recording.release import ReleaseGuess
from tests.harness.recording.test_skeleton import Talk

KEY = b"a key of the tests"
SECRET = "the-secret"


def redacted(*frames, release="0.33.0"):
    redaction = Redaction(ReleaseGuess(release), KEY)
    return [redaction.of(frame) for frame in frames]


def shape(frame):
    """Everything but the values: kinds and places of all nodes, lengths of all frames."""
    at = KINDS[kind_of_frame(frame).name].body
    root = tree.read_tree(frame.frames[at], trailing=True)
    places = [(len(path), node.kind, node.start, node.end) for path, node in root.walk()]
    return [len(part) for part in frame.frames], places


def golden_frames():
    from pathlib import Path

    folder = Path(__file__).resolve().parents[3] / "golden"
    sockets = {"add": INPUT, "abort": INPUT, "utility": INPUT, "outputs": OUTPUT}
    for vector in load(folder):
        if vector.kind in sockets:
            to = FROM_ENGINE if vector.kind == "outputs" else TO_ENGINE
            yield vector, Frame(0, 0, 0, sockets[vector.kind], to, vector.frames)


def test_every_golden_vector_keeps_its_shape_and_is_still_right_where_it_was():
    seen = 0
    for vector, frame in golden_frames():
        (new,) = redacted(frame, release=vector.releases[-1])
        assert shape(new) == shape(frame), vector.name
        before, after = right_in(vector.kind, frame.frames), right_in(vector.kind, new.frames)
        assert set(before) == set(after), vector.name
        seen += 1
    assert seen > 20


def test_texts_tokens_and_tensors_of_a_request_are_others():
    talk = Talk().add(
        0,
        SECRET,
        prompt=(5, 200, 4000, 100_000),
        params={"stop": [SECRET], "stop_token_ids": [3000], "logit_bias": {700: 1.0}, "seed": 77},
        cache_salt=SECRET,
    )
    (new,) = redacted(*talk.frames)
    assert SECRET.encode() not in b"".join(new.frames)
    old_add, new_add = (decode("add", f.frames, profile_for("0.33.0")) for f in (*talk.frames, new))
    old, changed = old_add.request, new_add.request
    assert [n.bit_length() > 7 for n in old.prompt_token_ids] == [
        n.bit_length() > 7 for n in changed.prompt_token_ids
    ]
    assert old.prompt_token_ids[1:] != changed.prompt_token_ids[1:]
    assert changed.sampling_params["stop"] != [SECRET]
    assert changed.sampling_params["stop_token_ids"] != [3000]
    assert list(changed.sampling_params["logit_bias"]) != [700]
    assert (changed.sampling_params["seed"], changed.sampling_params["max_tokens"]) == (77, 8)
    assert changed.cache_salt != SECRET


def test_frames_behind_a_body_are_emptied():
    frame = Talk().add(0, "x").frames[0]
    (new,) = redacted(Frame(0, 0, 0, INPUT, TO_ENGINE, (*frame.frames, b"pixels", b"")))
    assert new.frames[2:] == (bytes(6), b"")


def test_the_ids_of_a_request_stay_together():
    talk = Talk().add(0, SECRET).row(0, SECRET, 1).abort(0, SECRET)
    add, output, abort = redacted(*talk.frames)
    profile = profile_for("0.33.0")
    asked = decode("add", add.frames, profile).request
    assert asked.request_id.startswith(asked.external_req_id)
    assert len(asked.external_req_id) == len(SECRET)
    assert decode("outputs", output.frames, profile).outputs[0].request_id == asked.request_id
    assert decode("abort", abort.frames, profile).request_ids == (asked.request_id,)


def test_two_ids_never_become_one():
    redaction = Redaction(ReleaseGuess("0.33.0"), KEY)
    ids = [f"{a}{b}-{n:08x}" for a in "abz09" for b in "xyzA" for n in range(20)]
    assert len({redaction.identifier(one) for one in ids}) == len(ids)


def test_one_letter_becomes_another_one_at_each_place():
    redaction = Redaction(ReleaseGuess("0.33.0"), KEY)
    assert len(set(redaction.identifier("m" * 40))) > 5


@pytest.mark.parametrize("tokens", [range(128), range(128, 256), range(256, 400), [1 << 16] * 99])
def test_tokens_take_as_many_bytes_as_before_in_the_shortest_form(tokens):
    frame = Talk().add(0, "x", prompt=tuple(tokens)).frames[0]
    (new,) = redacted(frame)
    body = msgpack.unpackb(new.frames[1], strict_map_key=False)
    assert body[1] != list(tokens)
    assert len(msgpack.packb(body[1])) == len(msgpack.packb(list(tokens)))


def test_another_key_gives_other_texts():
    frame = Talk().add(0, SECRET).frames[0]
    one, other = (Redaction(ReleaseGuess("0.33.0")).of(frame) for _ in "ab")
    assert one.frames != other.frames


def test_failure_messages_and_results_are_replaced_and_words_of_the_protocol_stay():
    talk = Talk().call(0, 1, "sleep", 1, "abort").call(0, 2, "add_lora", [SECRET, 1, SECRET])
    talk.reply(0, 1, failure=SECRET).reply(0, 2, value=[SECRET])
    new = redacted(*talk.frames)
    assert SECRET.encode() not in b"".join(b"".join(frame.frames) for frame in new)
    sleep = decode("utility", new[0].frames, profile_for("0.33.0"))
    assert (sleep.method, list(sleep.args)) == ("sleep", [1, "abort"])


@pytest.mark.parametrize("body", [b"\xc1secret", b"\x94\xa6sec", msgpack.packb("secret")])
def test_what_cannot_be_read_is_emptied(body):
    (new,) = redacted(Frame(0, 0, 0, INPUT, TO_ENGINE, (b"\0", body)))
    assert b"sec" not in b"".join(new.frames)
    (new,) = redacted(Frame(0, 0, 0, INPUT, TO_ENGINE, (b"\x07secret", body)))
    assert b"sec" not in b"".join(new.frames)


def test_names_of_multimodal_texts_and_of_other_scripts_are_replaced_as_well():
    talk = Talk().add(0, "x", params={"bad_words": ["größe", "尺寸"]})
    (new,) = redacted(*talk.frames)
    message = decode("add", new.frames, profile_for("0.33.0"))
    assert isinstance(message, Add)
    words = message.request.sampling_params["bad_words"]
    assert [len(word.encode()) for word in words] == [len("größe".encode()), 6]
    assert "größe" not in words


def test_a_redacted_session_through_the_proxy_holds(tmp_path, skeleton_of, played):
    from harness.targets.reference import ZmqTarget
    from tests.harness.recording.test_proxy import story
    from tests.support.proxied import play_through_proxy

    through = play_through_proxy(
        story("in-process coordinator"), ZmqTarget(), "0.33.0", tmp_path / "f.jsonl", redact=True
    )
    (recorded,) = read_file(through.path).stories
    assert b"no memory".hex() not in through.path.read_text()
    loaded, _ = skeleton_of(recorded.frames, "0.33.0")
    assert played(loaded).status == "held"


def test_profiles_are_all_known_to_the_redaction():
    for release in PROFILES:
        redacted(Talk().add(0, "x").frames[0], release=release)
