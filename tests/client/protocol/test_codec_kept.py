"""Bodies that were decoded before: what is kept, how much of it, and that nobody can tell."""

from __future__ import annotations

import msgpack
import pytest

from client.protocol.codec import Codec, DecodeError
from client.protocol.codec_kept import (
    KEPT_BYTES,
    KEPT_MAX,
    LONG_BYTES,
    Kept,
    Table,
    is_fixed,
    key_of,
)
from client.protocol.ids import RequestId, Wave
from client.protocol.messages import (
    Abort,
    EngineCoreOutput,
    EngineCoreOutputs,
    StartDpWave,
    UtilityCall,
)
from client.protocol.profiles import profile_for


@pytest.mark.parametrize(
    ("length", "kept"), [(0, True), (LONG_BYTES - 1, True), (LONG_BYTES, True), (65_537, False)]
)
def test_short_bodies_are_kept_and_longer_ones_are_not(length, kept):
    frames = [b"\x01", bytes(length)]
    assert key_of(frames) == (tuple(frames) if kept else None)
    assert (key_of(frames[::-1]) is not None) is kept


@pytest.mark.parametrize("other", [bytearray, memoryview])
def test_frames_that_may_change_are_not_kept(other):
    assert key_of([b"\x01", other(b"x")]) is None


def test_table_forgets_all_once_it_is_full_and_keeps_the_newest():
    table: Table[int] = Table()
    for number in range(KEPT_MAX):
        table.keep(number, number, 1)
    assert [table.get(number) for number in range(KEPT_MAX)] == list(range(KEPT_MAX))
    table.keep(-1, -1, 1)
    assert {table.get(number) for number in range(KEPT_MAX)} == {None}
    assert table.get(-1) == -1


def test_table_forgets_all_once_it_has_many_bytes_and_keeps_the_newest():
    assert KEPT_BYTES == 1_048_576  # a mebibyte for each release is little beside the rest
    table: Table[str] = Table()
    for name, size, left in (
        ("a", KEPT_BYTES - 2, "a"),
        ("b", 2, "ab"),
        ("c", 1, "c"),
        ("d", KEPT_BYTES - 1, "cd"),
        ("e", 1, "e"),
    ):
        table.keep(name, name, size)
        assert "".join(key for key in "abcde" if table.get(key) == key) == left


def test_each_release_has_a_table_of_its_own_and_many_do_not_pile_up():
    kept: Kept[str] = Kept()
    profiles = [object() for _ in range(KEPT_MAX + 1)]
    for profile in profiles[:KEPT_MAX]:
        kept.table(profile).keep("key", f"{id(profile)}")
    for profile in profiles[:KEPT_MAX]:
        assert kept.table(profile).get("key") == f"{id(profile)}"
    assert kept.table(profiles[-1]).get("key") is None
    assert kept.table(profiles[0]).get("key") is None


def test_message_that_cannot_be_changed_is_decoded_once(newest):
    rows = (EngineCoreOutput(RequestId("kept"), (1, 2)),)
    frames = newest.encode_outputs(EngineCoreOutputs(outputs=rows))
    first = newest.classify(frames)
    assert Codec(newest.profile).classify(list(frames)) is first
    assert first.outputs == rows
    wave = newest.encode_start_wave(StartDpWave(Wave(3), None))
    assert newest.decode_engine_input(wave) is newest.decode_engine_input(wave)


def test_output_with_a_map_is_decoded_anew_for_each_receiver(newest):
    row = EngineCoreOutput(RequestId("a"), (), kv_transfer_params={"k": 1})
    frames = newest.encode_outputs(EngineCoreOutputs(outputs=(row,)))
    newest.classify(frames).outputs[0].kv_transfer_params["k"] = 2
    assert newest.classify(frames).outputs == (row,)


def test_message_is_fixed_if_nothing_in_it_can_be_changed():
    assert is_fixed(Abort(("a",)))
    assert is_fixed(StartDpWave(1, None))
    assert not is_fixed(UtilityCall(0, 1, "m", [1]))


def test_change_of_a_message_is_not_seen_by_who_decodes_the_same_bytes(newest):
    frames = newest.encode_utility(UtilityCall(0, 1, "m", [1]))
    newest.decode_engine_input(frames).args.append(2)
    assert newest.decode_engine_input(frames).args == [1]


def test_change_of_an_output_is_not_seen_by_who_decodes_the_same_bytes(newest):
    body = msgpack.packb([0, [], None, 1.0, [9, None, [None, [1]]], None, None, None])
    newest.decode_outputs([body]).utility_output.value.append(2)
    assert newest.decode_outputs([body]).utility_output.value == [1]


def test_long_bodies_are_each_read_for_themselves(newest):
    for text in ("a", "b", "a"):
        ids = (text * (LONG_BYTES + 1),)
        assert newest.decode_engine_input(newest.encode_abort(ids)) == Abort(ids)


def test_same_bytes_are_read_anew_under_another_release():
    outputs = msgpack.packb([0, [], None, 1.0, None, None, None, None, "weights"])
    assert Codec(profile_for("0.33.0")).decode_outputs([outputs]).weight_version == "weights"
    with pytest.raises(DecodeError, match="invalid length 9"):
        Codec(profile_for("0.31.0")).decode_outputs([outputs])
    assert Codec(profile_for("0.33.0")).decode_outputs([outputs]).weight_version == "weights"


def test_refused_bytes_are_refused_again(newest):
    for _ in range(2):
        with pytest.raises(DecodeError):
            newest.decode_engine_input([b"\x01", b"\x91\x01"])
        with pytest.raises(DecodeError):
            newest.decode_outputs([b"\x93"])
