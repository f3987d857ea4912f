"""Golden explanations: ``python -m tests.support.explanations`` writes them anew.

What changes with every new invariant or mutant is left out.
"""

from __future__ import annotations

from pathlib import Path

from harness.authoring.explanation import explain
from harness.authoring.telling import sections, wrapped
from harness.scenario import selection

GOLDEN = Path(__file__).parents[1] / "golden" / "explain"
COLUMNS = 88
LEFT_OUT = {"Who judges", "Mutants"}
IDS = (
    "elastic/coordinator-counts-follow",
    "handshake/one-engine-never-subscribes",
    "lockstep/resumed-twice",
    "routing/rank-text-is-refused",
    "utility/failing-beside-hanging",
    "waves/stale-first-request",
)


def explanation(name: str) -> str:
    """The golden part of an explanation."""
    (loaded,) = selection.load_all(selection.select([name]))
    lines = []
    for section in sections(explain(loaded)):
        if section.title not in LEFT_OUT:
            lines += [
                section.title,
                *(t for line in section.lines for t in wrapped(line, COLUMNS)),
                "",
            ]
    return "\n".join(lines)


def golden_file(name: str) -> Path:
    """Where the golden explanation of a scenario is."""
    return GOLDEN / f"{name.replace('/', '-')}.txt"


def main() -> None:
    """Write all of them."""
    GOLDEN.mkdir(exist_ok=True)
    for name in IDS:
        golden_file(name).write_text(explanation(name), encoding="utf-8")


if __name__ == "__main__":
    main()
