"""Reads ``/metrics`` into samples by name and labels."""

from __future__ import annotations

from harness.targets.base import Metrics, TargetError
from harness.targets.vllm_rs.metric_families import MODEL_LABEL

_UNDECLARED = "unknown"
"""Kind that the parser gives to samples without a ``TYPE`` line of their own name."""


def parse_metrics(text: str, model: str) -> Metrics:
    """Return all samples as ``name{label="value",…}``, labels sorted; no braces without labels.

    A family that is declared has its place in ``families`` even without a sample: the frontend
    declares all of its families from the start, and a counter that never counted has no sample.
    The label that names the one model of a run is left out: its value differs from machine to
    machine.

    Raises:
        TargetError: prometheus_client is not installed, or the text is no exposition format.
    """
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError as error:
        msg = "metrics need prometheus-client: pip install wavecheck[frontend]"
        raise TargetError(msg) from error
    try:
        families = list(text_string_to_metric_families(text))
    except ValueError as error:
        msg = f"/metrics is no Prometheus text: {error}"
        raise TargetError(msg) from error
    samples = {
        sample_name(sample.name, _without_model(sample.labels, model)): float(sample.value)
        for family in families
        for sample in family.samples
    }
    return Metrics(samples, frozenset(f.name for f in families if f.type != _UNDECLARED))


def sample_name(name: str, labels: dict[str, str]) -> str:
    """Return a sample's name with its labels in order."""
    if not labels:
        return name
    inside = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{inside}}}"


def _without_model(labels: dict[str, str], model: str) -> dict[str, str]:
    return {name: v for name, v in labels.items() if not (name == MODEL_LABEL and v == model)}
