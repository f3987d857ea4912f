"""What there is: scenarios, invariants, mutants, targets, frontends, by id and title."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from client.protocol.profiles import NEWEST, RELEASES, profile_for
from harness.invariants import discover as discover_invariants
from harness.mutants import discover as discover_mutants
from harness.scenario import selection
from harness.scenario.needs import needs
from harness.targets.base import TargetError
from harness.targets.registry import KINDS, open_target
from harness.targets.request import TargetRequest
from harness.targets.vllm_py.sources import available as available_sources
from harness.targets.vllm_rs.fetch import available

Row = dict[str, Any]


def invariant_doc(name: str) -> Mapping[str, str]:
    """Statement, reason, source and limits of an invariant; empty for an unknown id."""
    return next((cls.doc() for cls in discover_invariants() if cls.id == name), {})


def scenarios() -> list[Row]:
    """Built-in scenarios.

    Raises:
        InvalidScenariosError: some of them are not valid.
    """
    return [
        {
            "id": loaded.id,
            "title": loaded.scenario.title,
            "chapter": loaded.id.rpartition("/")[0],
            "promise": loaded.scenario.promise,
            "refs": list(loaded.scenario.refs),
            "profiles": loaded.scenario.profiles,
            "needs": sorted(needs(loaded.scenario)),
            "invariants": list(loaded.scenario.invariants),
            "known": [entry.model_dump() for entry in loaded.scenario.known],
            "path": str(loaded.path),
        }
        for loaded in selection.load_all(selection.builtin())
    ]


def invariants() -> list[Row]:
    """All invariants."""
    return [
        {
            "id": cls.id,
            "title": doc.get("statement", ""),
            "level": cls.level.value,
            "kind": cls.kind.value,
            "needs": sorted(cls.needs),
            "profiles": cls.profiles,
            "reason": doc.get("reason", ""),
            "source": doc.get("source", ""),
            "limits": doc.get("limits", ""),
        }
        for cls in discover_invariants()
        for doc in [cls.doc()]
    ]


def mutants() -> list[Row]:
    """Known bugs that are kept as variants of the reference client."""
    return [
        {
            "id": mutant.id,
            "title": mutant.title,
            "family": mutant.family,
            "killed_by": mutant.killed_by,
            "source": mutant.source,
        }
        for mutant in discover_mutants()
    ]


def targets() -> list[Row]:
    """Kinds of targets, and whether they can be used here."""
    rows: list[Row] = []
    for kind, title in KINDS.items():
        row: Row = {"id": kind, "title": title, "available": False, "reason": None}
        if kind == "vllm-rs" and available(NEWEST) is None:
            # Opening it would download a large wheel.
            row |= {"version": NEWEST, "capabilities": [], "reason": f"{NEWEST} is not fetched"}
        elif kind == "vllm-py" and available_sources(NEWEST) is None:
            row |= {"version": NEWEST, "capabilities": [], "reason": f"{NEWEST} is not fetched"}
        else:
            try:
                target = open_target(TargetRequest(kind))
            except TargetError as error:
                row |= {"version": None, "capabilities": [], "reason": str(error)}
            else:
                row |= {
                    "available": True,
                    "version": target.info.version,
                    "capabilities": sorted(target.capabilities(profile_for(NEWEST))),
                }
        rows.append(row)
    return rows


def frontends() -> list[Row]:
    """Known releases of the real frontend, oldest first, and which of them are here."""
    rows: list[Row] = []
    for release in RELEASES:
        path = available(release)
        rows.append(
            {
                "id": release,
                "title": f"vllm-rs of vLLM {release}",
                "available": path is not None,
                "path": None if path is None else str(path),
            }
        )
    return rows


CATALOGUES: Mapping[str, Callable[[], list[Row]]] = {
    "scenarios": scenarios,
    "invariants": invariants,
    "mutants": mutants,
    "targets": targets,
    "frontends": frontends,
}
"""Rows by the word that ``wavecheck list`` takes."""
