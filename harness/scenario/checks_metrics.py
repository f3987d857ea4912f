"""Checks of expectations about metrics: a sample that nobody serves would read as one of 0."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness.scenario.finding import Finding
from harness.scenario.model import Expect, Scenario
from harness.scenario.positions import Path
from harness.scenario.problems import did_you_mean, one_of
from harness.targets.vllm_rs.metric_families import (
    ENGINE_LABEL,
    FAMILIES,
    LABEL_VALUES,
    MODEL_LABEL,
    SAMPLES,
    Family,
)

_LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*"'
_SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)(?:\{{({_LABEL}(?:,{_LABEL})*)\}})?")
_ONE_LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\.)*)"')


def check_metrics(scenario: Scenario, releases: Sequence[str]) -> Iterator[Finding]:
    """Each sample that an expectation names can be there."""
    ranks = scenario.topology.rank_list
    for i, step in enumerate(scenario.steps):
        if step.expect is None or step.expect.metrics is None:
            continue
        base: Path = ("steps", i, "expect", "metrics")
        if not step.expect.metrics:
            yield Finding(base, "the expectation names no sample", 'name{label="value"}: number')
        about = _about(scenario, step.expect, releases)
        for text, value in step.expect.metrics.items():
            for found in _sample((*base, text), text, ranks, about):
                yield replace(found, on_key=True)
            if value < 0:
                title = f"{value:g} is below 0, which no sample is"
                yield Finding((*base, text), title, "0 or more")


def _about(scenario: Scenario, expect: Expect, releases: Sequence[str]) -> list[str]:
    """Releases on which an expectation is judged; none where a specifier is invalid."""
    texts = (scenario.profiles, expect.when or "")
    try:
        wanted = [SpecifierSet(text) for text in texts]
    except ValueError:  # reported by the check of specifiers
        return []
    return [release for release in releases if all(release in one for one in wanted)]


def _sample(path: Path, text: str, ranks: list[int], about: Sequence[str]) -> Iterator[Finding]:
    match = _SAMPLE.fullmatch(text)
    if match is None:
        title = f"'{text}' is no name of a sample"
        yield Finding(path, title, 'name, or name{label="value",…} without spaces')
        return
    name = match[1]
    family = SAMPLES.get(name)
    if family is None:
        yield _unknown(path, name)
        return
    labels = _ONE_LABEL.findall(match[2] or "")
    yield from _labels(path, name, family, labels, ranks)
    if about and all(Version(release) < Version(family.since) for release in about):
        yield Finding(
            path,
            f"'{family.name}' exists since {family.since}, and this is judged up to {about[-1]}",
            "a family of these releases, or other 'profiles' or 'when'",
        )


def _unknown(path: Path, name: str) -> Finding:
    if (family := FAMILIES.get(name)) is not None:
        return Finding(
            path,
            f"'{name}' is a {family.kind}, whose samples have longer names",
            one_of(family.samples),
        )
    return Finding(
        path,
        f"no release has a metric '{name}'",
        "a sample of a family in docs/metrics.md",
        did_you_mean(name, SAMPLES) or did_you_mean(name, FAMILIES),
    )


def _labels(
    path: Path, name: str, family: Family, labels: list[tuple[str, str]], ranks: list[int]
) -> Iterator[Finding]:
    names = [label for label, _ in labels]
    if MODEL_LABEL in names:
        yield Finding(path, f"label '{MODEL_LABEL}' is left out", "the other labels")
        return
    known = family.labels_of(name)
    if known is not None:
        unknown = [label for label in names if label not in known]
        for label in unknown:
            title = f"'{name}' has no label '{label}'"
            yield Finding(path, title, one_of(known), did_you_mean(label, known))
        lacking = [label for label in known if label not in names]
        if lacking and not unknown:
            title = f"label '{lacking[0]}' is missing; a sample has all of its labels"
            yield Finding(path, title, ", ".join(known))
            return
        if unknown:
            return
    if names != sorted(set(names)):
        shown = ",".join(f'{label}="{value}"' for label, value in sorted(set(labels)))
        yield Finding(path, "labels are not in order, each once", f"{name}{{{shown}}}")
    for label, value in labels:
        yield from _value(path, family, label, value, ranks)


def _value(
    path: Path, family: Family, label: str, value: str, ranks: list[int]
) -> Iterator[Finding]:
    choices = LABEL_VALUES.get((family.name, label))
    if label == ENGINE_LABEL:
        # By rank, or by place where the frontend counts its engines.
        choices = tuple(str(n) for n in sorted({*ranks, *range(len(ranks))}))
    if choices is not None and value not in choices:
        title = f"label '{label}' of '{family.name}' is never '{value}'"
        yield Finding(path, title, one_of(choices), did_you_mean(value, choices))
