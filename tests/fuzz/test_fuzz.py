"""A short campaign for each family, and every input that once broke something."""

from __future__ import annotations

from random import Random  # noqa: TID251

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.protocol.codec import Codec, DecodeError
from client.protocol.codec_msgpack import unpack
from client.protocol.profiles import RELEASES, profile_for
from tests.fuzz import driver, registry, seeds
from tests.fuzz.families.decoders import Outputs
from tests.fuzz.model import CORPUS, Finding, Input, from_text, kept, to_text
from tests.fuzz.mutate import Raw, broken, pack, reframed
from tests.fuzz.wire import read, read_slowly

SEED = 20_260_701
SHORT = {
    "outputs": 2_000, "requests": 2_000, "utility": 2_000, "tensors": 1_000, "handshake": 300,
    "registration": 300, "coordinator": 300, "publishes": 300, "scenario": 60, "failure": 100,
    "adapter": 2_000, "http": 150, "grpc": 150,
}  # fmt: skip
"""Inputs of the campaign that each test run has."""
WITH_SOCKETS = ("http", "grpc")


def marked(name):
    marks = [pytest.mark.zmq] if name in WITH_SOCKETS else []
    return pytest.param(name, marks=[*marks, pytest.mark.slow])


@pytest.fixture(scope="module", params=[marked(name) for name in registry.FAMILIES])
def family(request):
    """Started once for its campaign and for what is kept of it."""
    if request.param in WITH_SOCKETS:
        pytest.importorskip("aiohttp", reason="the extra [frontend] is not installed")
    made = registry.family(request.param)
    yield made
    made.close()


def explained(findings):
    return [(given.release, given.door, given.frames, wrong) for given, wrong in findings]


def test_short_campaign_finds_nothing(family):
    tally = driver.block(family, 0, SEED, SHORT[family.name])
    assert tally.inputs == SHORT[family.name]
    assert explained(tally.findings) == []
    assert len(tally.outcomes) > 1, "neither taken nor refused, but always the same"


def test_every_kept_input_is_judged_right(family):
    findings = []
    with driver.guarded():
        for path in kept(family.name):
            _, wrong = driver.outcome(family, from_text(path.read_text(encoding="utf-8")))
            if wrong is not None:
                findings.append((path.name, wrong))
    assert findings == []


def test_every_family_has_a_corpus_that_belongs_to_it():
    folders = {path.name for path in CORPUS.iterdir() if path.is_dir()}
    assert folders <= set(registry.FAMILIES)
    for name in folders:
        for path in kept(name):
            text = path.read_text(encoding="utf-8")
            assert '"why": ""' not in text, path


# --- what the harness itself must be able to see --------------------------------------------------


class Broken:
    """The family of outputs, with something in the place of the codec's method."""

    def __init__(self, monkeypatch, method, replacement):
        monkeypatch.setattr(Codec, method, replacement)
        self.family = Outputs()

    def wrongs(self, inputs=400):
        return [wrong for _, wrong in driver.block(self.family, 0, 3, inputs).findings]


def test_codec_that_crashes_is_found(monkeypatch):
    def classify(self, frames):
        raise KeyError(len(frames))

    assert any(
        "KeyError got out" in wrong for wrong in Broken(monkeypatch, "classify", classify).wrongs()
    )


def test_codec_that_takes_what_is_broken_is_found(monkeypatch):
    whole = Codec.classify
    batch = Codec(profile_for(RELEASES[-1])).classify([msgpack.packb([0, [], None, 0.0, None, []])])

    def classify(self, frames):
        try:
            return whole(self, frames)
        except DecodeError:
            return batch

    wrongs = Broken(monkeypatch, "classify", classify).wrongs()
    assert any(wrong.startswith("the rules say refuse") for wrong in wrongs)


def test_codec_that_refuses_what_is_right_is_found(monkeypatch):
    def classify(self, frames):
        raise DecodeError("EngineCoreOutputs", "EngineCoreOutputs", "not today")

    wrongs = Broken(monkeypatch, "classify", classify).wrongs()
    assert any(wrong.startswith("the rules say RequestBatch") for wrong in wrongs)


def test_codec_that_quotes_at_length_is_found(monkeypatch):
    def classify(self, frames):
        raise DecodeError("EngineCoreOutputs", "EngineCoreOutputs", "x" * 5_000)

    wrongs = Broken(monkeypatch, "classify", classify).wrongs()
    assert any("characters long" in wrong for wrong in wrongs)


def test_codec_that_does_not_come_back_is_found(monkeypatch):
    monkeypatch.setattr(driver, "CPU_S", 0.2)

    def classify(self, frames):
        while True:
            pass

    assert Broken(monkeypatch, "classify", classify).wrongs(1) == [
        "took more than 0.2 s of CPU time"
    ]


def test_finding_is_made_smaller_and_stays_one(monkeypatch):
    class Nervous:
        name = "outputs"

        def check(self, given):
            if b"\xc1" in b"".join(given.frames):
                raise Finding("a byte that it does not like")
            return "accepted"

    given = Input(RELEASES[-1], "classify", (b"a" * 300 + b"\xc1" + b"b" * 200, b"more"))
    assert driver.smaller(Nervous(), given, "a byte that it does not like").frames == (b"\xc1",)


def test_kept_input_is_read_as_it_was_written():
    given = Input("0.22.0", "told", (b"\x00\xff", b""))
    assert from_text(to_text(given, "why")) == given


def test_same_seed_draws_the_same_inputs():
    family = Outputs()
    first = [family.make(Random("a")) for _ in range(3)]
    assert first == [family.make(Random("a")) for _ in range(3)]


# --- the second reader ----------------------------------------------------------------------------


LEAF = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=40) | st.binary(max_size=300)  # fmt: skip
VALUE = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=6), inner), max_leaves=20)  # fmt: skip


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(value=VALUE)
def test_both_readers_read_what_the_library_writes(value):
    body = msgpack.packb(value)
    slow, quick = read_slowly(body), read(body)
    assert (slow.value, slow.rest, slow.why) == (value, 0, "")
    assert (quick.value, quick.rest, quick.why) == (value, 0, "")


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(body=st.binary(max_size=60))
def test_slow_reader_and_the_codecs_library_agree_on_any_bytes(body):
    slow = read_slowly(body)
    try:
        unpack(body, "x", trailing=True)
    except DecodeError:
        assert slow.why
    else:
        assert not slow.why


def test_mutations_hold_raw_bytes_and_frames_of_every_kind():
    rng = Random(5)
    assert pack([1, Raw(b"\xc1"), 2]) == b"\x93\x01\xc1\x02"
    bodies = {broken(seeds.utility_call(rng), rng) for _ in range(300)}
    assert len(bodies) > 250
    assert {len(reframed([b"a", b"b"], rng)) for _ in range(300)} == {1, 2, 3, 4}
