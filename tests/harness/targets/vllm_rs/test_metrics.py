"""Samples of the frontend's metrics by name and labels."""

from __future__ import annotations

import pytest

from harness.targets.base import TargetError
from harness.targets.vllm_rs.metrics import parse_metrics

pytest.importorskip("prometheus_client", reason="the extra `frontend` is not installed")
TEXT = """\
# HELP vllm:request_success Count of successful requests.
# TYPE vllm:request_success counter
vllm:request_success_total{model_name="/models/m",finished_reason="stop",engine="1"} 2.0
vllm:request_success_total{model_name="other",finished_reason="stop",engine="0"} 1.0
# HELP vllm:corrupted_requests Nothing was corrupted yet.
# TYPE vllm:corrupted_requests counter
# TYPE plain gauge
plain 7
undeclared 1
"""


def test_samples_have_sorted_labels_without_the_one_model_s_name():
    assert parse_metrics(TEXT, "/models/m").samples == {
        'vllm:request_success_total{engine="1",finished_reason="stop"}': 2.0,
        'vllm:request_success_total{engine="0",finished_reason="stop",model_name="other"}': 1.0,
        "plain": 7.0,
        "undeclared": 1.0,
    }


def test_families_are_those_declared_with_or_without_samples():
    declared = {"vllm:request_success", "vllm:corrupted_requests", "plain"}
    assert parse_metrics(TEXT, "/models/m").families == declared


def test_text_that_is_no_exposition_format_is_the_harness_s_problem():
    with pytest.raises(TargetError, match="no Prometheus text"):
        parse_metrics("<html>", "m")
