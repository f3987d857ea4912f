"""vLLM's AsyncLLM and DP client under test, with mock engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from client.protocol.profiles import Profile
from harness.play import Setting
from harness.scenario.model import Expect, Scenario, UtilityStep
from harness.targets.base import Frontend
from harness.targets.vllm_py.client_api import (
    FIRST_ONLY,
    SHOWN_ERRORS,
    call_of,
    methods_of,
)
from harness.targets.vllm_py.client_frontend import PythonFrontend
from harness.targets.vllm_py.part import SourcesPart

CAPABILITIES = frozenset(
    {
        "op.generate", "op.cancel", "op.drop", "op.abort", "op.rank", "op.kv-transfer",
        "op.utility", "op.utility-raw", "surface.native",
        "see.wire", "see.results", "see.health", "see.log", "see.registries",
        "coordinator.none", "transport.handshake-owner",
        "fault.engine-vanish", "fault.engine-stall",
    }
)  # fmt: skip


_RESULT_ORDER = "utility.result-order"


class ClientPart(SourcesPart):
    """Plays scenarios in which the frontend runs the handshake."""

    title: ClassVar[str] = "vLLM's AsyncLLM and its DP client"
    black_box: ClassVar[bool] = True
    offered: ClassVar[frozenset[str]] = CAPABILITIES

    def unsupported(self, scenario: Scenario, profile: Profile) -> str | None:
        """The first reason why a scenario cannot be played here."""
        del profile
        return next(self._reasons(scenario), None)

    def _reasons(self, scenario: Scenario) -> Iterator[str]:
        topology = scenario.topology
        count, given = len(topology.rank_list), topology.config
        if given.engine_count not in (None, count) or given.engine_start_index not in (None, 0):
            yield "vLLM's client counts its engines by the data-parallel size"
        sizes = (given.data_parallel_size, topology.data_parallel_size)
        if any(size not in (None, count) for size in sizes):
            yield "vLLM's client counts its engines by the data-parallel size"
        methods = methods_of(self._tree.folder)
        utilities = {s.utility.id: s.utility for s in scenario.steps if s.utility is not None}
        free = {s.call.id for s in scenario.steps if s.call is not None and s.call.rank is None}
        for step in scenario.steps:
            if (
                step.expect is not None
                and step.expect.engine is not None
                and step.expect.op in free
            ):
                yield "which rank serves a call without one follows a rule of vLLM's own here"
            if step.call is not None and not 0 <= (step.call.rank or 0) < count:
                yield "ranks are checked by the input processor, which is a stand-in here"
            if step.expect is not None:
                yield from _expectation(step.expect, utilities)
            if step.utility is not None:
                if step.utility.method in FIRST_ONLY and _RESULT_ORDER in scenario.invariants:
                    yield _first_only(step.utility.method)
                try:
                    call_of(step.utility, methods)
                except LookupError as error:
                    yield str(error)

    def _make(self, setting: Setting) -> Frontend:
        return PythonFrontend(tree=self._tree, topology=setting.topology, emit=setting.emit)


def _expectation(expect: Expect, utilities: Mapping[str, UtilityStep]) -> Iterator[str]:
    """What vLLM's client cannot show, since it has no such thing."""
    for error in (expect.error, expect.health_error):
        if error is not None and error not in SHOWN_ERRORS:
            yield f"vLLM's Python client has no error that means {error}"
    utility = utilities.get(expect.op or "")
    if utility is None or expect.value is None or utility.via != "method":
        return
    if utility.method in FIRST_ONLY:
        yield _first_only(utility.method)


def _first_only(method: str) -> str:
    return f"{method} of vLLM's Python client returns the first engine's results only"
