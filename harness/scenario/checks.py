"""What a scenario must fulfil beyond its types: names that are used exist, and make sense.

Each check yields findings; the loader gives them places. Checks read the model only, so they
serve generated scenarios as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from client.protocol.ids import RANKS_MAX
from client.protocol.profiles import RELEASES
from harness.reports.wording import counted
from harness.scenario.checks_elastic import check_elastic
from harness.scenario.checks_engines import check_engines, named_engines
from harness.scenario.checks_lockstep import check_lockstep
from harness.scenario.checks_metrics import check_metrics
from harness.scenario.checks_requests import check_requests
from harness.scenario.checks_steps import check_expectations, check_gates, check_steps
from harness.scenario.checks_utilities import check_utilities
from harness.scenario.checks_values import check_values
from harness.scenario.finding import Finding
from harness.scenario.model import Scenario, Step, Topology
from harness.scenario.positions import Path
from harness.scenario.problems import did_you_mean, one_of, show
from harness.targets.capabilities import CAPABILITIES
from harness.verdict import EXPECTATION

_REFERENCE = re.compile(r"https?://\S+|vllm#[0-9]+")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names that live outside the model. ``invariants`` is ``None`` where they are not known."""

    invariants: frozenset[str] | None = None
    releases: tuple[str, ...] = RELEASES


def check(scenario: Scenario, vocabulary: Vocabulary) -> list[Finding]:
    """Everything that is wrong with a well-formed scenario."""
    found: list[Finding] = []
    checks: tuple[Callable[[Scenario, Vocabulary], Iterable[Finding]], ...] = (
        _references,
        _releases,
        _known,
        _names,
        _topology,
        _engine_numbers,
        lambda s, _: check_engines(s),
        lambda s, _: check_lockstep(s),
        lambda s, v: check_elastic(s, v.releases),
        lambda s, _: check_steps(s),
        lambda s, _: check_requests(s),
        lambda s, _: check_utilities(s),
        lambda s, _: check_expectations(s),
        lambda s, _: check_values(s),
        lambda s, v: check_metrics(s, v.releases),
        lambda s, _: check_gates(s),
    )
    for one in checks:
        found.extend(one(scenario, vocabulary))
    return found


def specifier_problem(text: str, releases: Iterable[str]) -> tuple[str, str] | None:
    """What is wrong with a specifier of releases: (title, expected), or ``None``."""
    try:
        specifier = SpecifierSet(text)
    except InvalidSpecifier:
        return (
            f"'{text}' is no specifier of releases",
            "a PEP 440 specifier such as '>=0.28' or '>=0.24,<0.29'",
        )
    known = list(releases)
    if not any(release in specifier for release in known):
        return f"'{text}' fits no known release", f"releases from {known[0]} to {known[-1]}"
    return None


def _references(scenario: Scenario, _: Vocabulary) -> Iterator[Finding]:
    links: list[tuple[Path, str]] = [(("refs", i), ref) for i, ref in enumerate(scenario.refs)]
    links += [(("known", i, "link"), known.link) for i, known in enumerate(scenario.known)]
    for path, text in links:
        if not _REFERENCE.fullmatch(text):
            yield Finding(
                path, f"'{text}' is no reference", "a URL, or vllm#N for a vLLM pull request"
            )
    for key in ("title", "promise"):
        if not getattr(scenario, key).strip():
            yield Finding((key,), f"{key} is empty", "one sentence")


def _releases(scenario: Scenario, vocabulary: Vocabulary) -> Iterator[Finding]:
    if (bad := specifier_problem(scenario.profiles, vocabulary.releases)) is not None:
        yield Finding(("profiles",), *bad)
    for i, step in enumerate(scenario.steps):
        if step.expect is not None and step.expect.when is not None:
            bad = specifier_problem(step.expect.when, vocabulary.releases)
            if bad is not None:
                yield Finding(("steps", i, "expect", "when"), *bad)


def _known(scenario: Scenario, vocabulary: Vocabulary) -> Iterator[Finding]:
    releases = vocabulary.releases
    for i, known in enumerate(scenario.known):
        base: Path = ("known", i)
        first, last = known.introduced_in, known.fixed_in
        named: list[tuple[Path, str | None]] = [
            ((*base, "introduced_in"), first),
            ((*base, "fixed_in"), last),
        ]
        for j, row in enumerate(known.measured):
            named.append(((*base, "measured", j, "release"), row.release))
            if row.release in {earlier.release for earlier in known.measured[:j]}:
                title = f"release {row.release} was measured twice"
                yield Finding((*base, "measured", j, "release"), title, "one row for each")
            if row.violations > row.trials:
                yield Finding(
                    (*base, "measured", j),
                    f"{counted(row.violations, 'violation')} in {counted(row.trials, 'trial')} cannot be",
                )
        for path, release in named:
            if release is not None and release not in releases:
                yield Finding(
                    path,
                    f"unknown release '{release}'",
                    one_of(releases),
                    did_you_mean(release, releases),
                )
        both = first in releases and last in releases
        if both and releases.index(str(first)) >= releases.index(str(last)):
            yield Finding((*base, "fixed_in"), f"{last} is not after {first}")


def _names(scenario: Scenario, vocabulary: Vocabulary) -> Iterator[Finding]:
    for i, name in enumerate(scenario.needs):
        if name not in CAPABILITIES:
            yield Finding(
                ("needs", i),
                f"unknown capability '{name}'",
                one_of(sorted(CAPABILITIES)),
                did_you_mean(name, CAPABILITIES),
            )
    invariants = vocabulary.invariants
    if invariants is None:
        return
    for i, name in enumerate(scenario.invariants):
        if name not in invariants:
            yield _unknown_invariant(("invariants", i), name, invariants)
    for i, known in enumerate(scenario.known):
        choices = invariants | {EXPECTATION}
        if known.invariant not in choices:
            yield _unknown_invariant(("known", i, "invariant"), known.invariant, choices)


def _unknown_invariant(path: Path, name: str, choices: frozenset[str]) -> Finding:
    return Finding(
        path,
        f"unknown invariant '{name}'",
        "an id that `wavecheck list invariants` shows",
        did_you_mean(name, sorted(choices)),
    )


def _topology(scenario: Scenario, _: Vocabulary) -> Iterator[Finding]:
    topology = scenario.topology
    ranks = topology.rank_list
    given = topology.model_fields_set
    path: Path = ("topology", "ranks" if topology.ranks is not None else "engines")
    if topology.ranks is not None:
        if "engines" in given and topology.engines != len(ranks):
            yield Finding(
                ("topology", "engines"),
                f"engines is {topology.engines}, but ranks names {len(ranks)}",
                "leave engines out, or name as many ranks",
            )
        if "start_rank" in given:
            yield Finding(("topology", "start_rank"), "ranks and start_rank exclude each other")
        if not ranks:
            yield Finding(path, "ranks is empty", "at least one rank")
        if len(set(ranks)) != len(ranks):
            yield Finding(path, "a rank stands twice in ranks", "ranks that differ")
    outside = [rank for rank in ranks if not 0 <= rank < RANKS_MAX]
    if outside:
        yield Finding(
            path,
            f"rank {outside[0]} does not fit the two-byte identity of an engine",
            f"ranks from 0 to {RANKS_MAX - 1}",
        )
    yield from _process(topology)
    if not scenario.connect_fails:  # an impossible topology may be the story
        yield from _modes(scenario, topology)


def _modes(scenario: Scenario, topology: Topology) -> Iterator[Finding]:
    """Frontends and coordinator go with the mode, and steps with both."""
    owner = topology.transport == "handshake-owner"
    if topology.frontends > 1 and owner:
        yield Finding(
            ("topology", "frontends"),
            "a handshake owner is the only frontend of its engines",
            "transport: bootstrapped",
        )
    for i, step in enumerate(scenario.steps):
        started = step.call or step.utility
        if started is not None and started.frontend >= topology.frontends:
            yield Finding(
                ("steps", i, step.verb, "frontend"),
                f"there is no frontend {started.frontend}",
                "topology: {frontends: 2}, or frontend 0",
            )
    for i, step in enumerate(scenario.steps):
        if step.coordinator is not None and topology.coordinator != "external":
            yield Finding(
                ("steps", i, "coordinator"),
                "there is no external coordinator to act on",
                "topology: {coordinator: external, transport: bootstrapped}",
            )
    if topology.coordinator == "external" and owner:
        yield Finding(
            ("topology", "coordinator"),
            "an external coordinator exists only beside a bootstrapped frontend",
            "transport: bootstrapped, or coordinator: in-process",
        )
    if topology.coordinator == "in-process" and not owner:
        yield Finding(
            ("topology", "coordinator"),
            "a bootstrapped frontend has no in-process coordinator",
            "transport: handshake-owner, or coordinator: external",
        )


def _process(topology: Topology) -> Iterator[Finding]:
    """What no process can be given."""
    for i, word in enumerate(topology.frontend_args):
        if "\0" in word:
            yield Finding(("topology", "frontend_args", i), "an argument has no character NUL")
    for name, value in topology.frontend_env.items():
        path: Path = ("topology", "frontend_env", name)
        if not name or "=" in name or "\0" in name:
            yield Finding(path, f"{name!r} is no name of an environment variable", "no '=' in it")
        if "\0" in value:
            yield Finding(path, "an environment variable has no character NUL")


def _engine_numbers(scenario: Scenario, _: Vocabulary) -> Iterator[Finding]:
    ranks = [*scenario.topology.rank_list, *scenario.topology.later_list]
    for path, number in _numbers(scenario):
        if number not in ranks:
            yield Finding(
                path,
                f"engine {number} does not exist",
                f"{one_of(map(str, ranks))} (the global ranks of this topology)",
                seen=show(number),
            )


def _numbers(scenario: Scenario) -> Iterator[tuple[Path, int]]:
    """Every engine number in the file that must exist, with its path."""
    for i, spec in enumerate(scenario.engines):
        yield from named_engines(("engines", i, "engine"), spec.engine)
    for i, step in enumerate(scenario.steps):
        yield from _numbers_of_step(("steps", i), step)


def _numbers_of_step(base: Path, step: Step) -> Iterator[tuple[Path, int]]:
    if step.engine is not None:
        yield from named_engines((*base, "engine", "engine"), step.engine.engine)
    if step.link is not None and step.link.engine != "coordinator":
        yield from named_engines((*base, "link", "engine"), step.link.engine)
    if step.wait is not None and step.wait.engine is not None:
        yield (*base, "wait", "engine"), step.wait.engine
    if (expect := step.expect) is None:
        return
    if expect.engine is not None:
        yield (*base, "expect", "engine"), expect.engine
    if expect.count is not None and expect.count.engine is not None:
        yield (*base, "expect", "count", "engine"), expect.count.engine
    for j, match in enumerate(expect.order or []):
        if match.engine is not None:
            yield (*base, "expect", "order", j, "engine"), match.engine
