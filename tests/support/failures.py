"""Failing runs to report on: played once, with the files that a command writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from harness.cli.main import cli

MUTANT = "coordinator-rewinds"
SCENARIO = "waves/stale-first-request"
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
"""A request id that would run if anything took it for markup."""


def wavecheck(*words: str | Path, env: dict[str, str] | None = None) -> Result:
    """One command, in this process."""
    return CliRunner().invoke(cli, [str(word) for word in words], env=env)


def failing_run(folder: Path, *words: str) -> Path:
    """The JSON of a run with one violation; its failure file lies beside it."""
    found = folder / "run.json"
    done = wavecheck("run", SCENARIO, "--mutant", MUTANT, "--out", folder, "--json", found, *words)
    assert done.exit_code == 1, done.output
    return found


def failing_crowd(folder: Path, *, callers: int, request: str = "c", random: bool = True) -> Path:
    """The failure file of a long run: so many callers, and an expectation that is not met."""
    scenario = folder / "crowd.yaml"
    document = {
        "title": "A crowd, and an expectation that nobody meets",
        "promise": "A report of a long run stays fluid.",
        "refs": ["vllm#46833"],
        "topology": {"engines": 4, "coordinator": "in-process"},
        "steps": [
            {"call": {"id": "one", "request_id": request, "rank": 1}},
            {"finish": "one"},
            {"crowd": {"id": "c", "callers": callers, "at_once": 8, "leave": "no"}},
            {"fence": True},
            {"expect": {"count": {"event": "add", "equals": 1}}},
        ],
    }
    scenario.write_text(json.dumps(document), encoding="utf-8")
    words = ["--strategy", "random", "--no-shrink"] if random else []
    done = wavecheck("run", scenario, "--out", folder / "out", *words)
    assert done.exit_code == 1, done.output
    (found,) = [path for path in (folder / "out").glob("*.json") if "step" in path.name]
    return found


def failure_file(run: Path) -> Path:
    """The failure file that a run names."""
    (result,) = json.loads(run.read_text(encoding="utf-8"))["results"]
    return Path(result["failure_file"])


def as_recorded(failure: Path, place: Path, **changes: Any) -> Path:
    """The same failure as if it had been seen on real sockets: without a tape."""
    document = json.loads(failure.read_text(encoding="utf-8"))
    document |= {"target": "zmq", "tape": None, "departures": None, "stalls": None, **changes}
    place.write_text(json.dumps(document), encoding="utf-8")
    return place
