"""The table of metrics is consistent in itself."""

from __future__ import annotations

from client.protocol.profiles import RELEASES
from harness.targets.vllm_rs.metric_families import (
    FAMILIES,
    LABEL_VALUES,
    SAMPLES,
    family_of,
)


def test_families_have_a_known_kind_and_release():
    assert {family.kind for family in FAMILIES.values()} == {"counter", "gauge", "histogram"}
    assert {family.since for family in FAMILIES.values()} <= set(RELEASES)


def test_each_sample_belongs_to_one_family():
    assert len(SAMPLES) == sum(len(family.samples) for family in FAMILIES.values())


def test_a_bucket_has_its_bound_among_its_labels():
    family = FAMILIES["http_request_duration_seconds"]
    assert family.samples[0] == "http_request_duration_seconds_bucket"
    assert family.labels_of(family.samples[0]) == ("handler", "le", "method")
    assert family.labels_of(family.samples[1]) == ("handler", "method")


def test_family_is_found_by_a_sample_with_labels():
    assert family_of('vllm:prompt_tokens_total{engine="0"}') == FAMILIES["vllm:prompt_tokens"]
    assert family_of("vllm:prompt_tokens") is None


def test_label_values_are_of_labels_that_there_are():
    for name, label in LABEL_VALUES:
        assert label in (FAMILIES[name].labels or ())
