"""The golden vectors in ``golden/``: our codec reads and writes every one, where it says so."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from client.protocol.codec import CodecError
from client.protocol.profiles import PROFILES, RELEASES
from harness.capture import vectors
from harness.capture.kinds import KINDS
from harness.capture.plain import plain

FOLDER = Path(__file__).parents[2] / "golden"
VECTORS = vectors.load(FOLDER)


def rewritten(vector, release):
    """The value and the bytes that a release's codec makes of a vector."""
    profile = PROFILES[release]
    message = vectors.read(vector.kind, vector.frames, profile)
    return plain(message), vectors.write(vector.kind, message, profile, vector.frames)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_vector_is_read_as_its_value_and_written_as_its_bytes_in_each_of_its_releases(vector):
    for release in vector.releases:
        assert rewritten(vector, release) == (vector.value, list(vector.frames)), release


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_vector_is_not_right_in_the_releases_just_outside_its_range(vector):
    first, last = (RELEASES.index(vector.releases[place]) for place in (0, -1))
    for place in (first - 1, last + 1):
        if 0 <= place < len(RELEASES):
            try:
                _value, frames = rewritten(vector, RELEASES[place])
            except CodecError:
                continue
            assert frames != list(vector.frames), RELEASES[place]


def test_vectors_cover_every_kind_and_every_release_that_is_seen_at_engines():
    kinds = Counter(vector.kind for vector in VECTORS)
    not_at_engines = {"publish", "first-request", "unsubscription", "unknown"}
    assert set(kinds) == set(KINDS) - not_at_engines
    assert min(kinds["add"], kinds["outputs"], kinds["utility"]) >= 10
    for kind in ("add", "outputs", "registration"):
        seen = {r for vector in VECTORS if vector.kind == kind for r in vector.seen_in}
        assert seen == set(RELEASES)


def test_names_are_unique_and_each_file_holds_one_kind():
    assert max(Counter(vector.name for vector in VECTORS).values()) == 1
    for path in FOLDER.glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        assert {vector["kind"] for vector in document["vectors"]} == {path.stem}
        assert path.read_text(encoding="utf-8") == vectors.text_of(document)


def test_what_was_seen_of_a_vector_lies_within_its_range():
    for vector in VECTORS:
        assert vector.seen_in, vector.name
        assert set(vector.seen_in) <= set(vector.releases), vector.name
