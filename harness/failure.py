"""Failure files: one readable JSON file that replays a failure, taking nothing from outside.

It holds the whole scenario, the profile, target and mutant, the tape of choices, the promise
that broke, its witness, the digest of the run and the order of events.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.scenario.loader import LoadedScenario
from harness.tape import Tape
from harness.version import tool_version

if TYPE_CHECKING:
    from harness.runner import RunOptions

FORMAT = 1
"""Version of the file format; another one is refused."""
FILE_BYTES_MAX = 16 << 20
OUT_DEFAULT = "wavecheck-out"
EVENTS_MAX = 5_000


class FailureFileError(Exception):
    """The file cannot be replayed; the message says why and what is needed (exit code 2)."""


@dataclass(frozen=True, slots=True)
class FailureFile:
    """What ``wavecheck replay`` needs.

    Attributes:
        scenario_text: the YAML of the scenario, whole.
        violated: invariant id, or ``expectation at step N``.
        tape: choices and the names of their options, as ``Tape.to_json`` gives them; ``None`` on
            a real target.
        digest: of the failing schedule; ``""`` on a real target.
        events: the run, one line each, for people.
    """

    scenario_id: str
    scenario_text: str
    target: str
    frontend: str | None
    profile: str
    mutant: str | None
    violated: str
    witness: Sequence[int]
    digest: str
    tape: Any
    events: Sequence[str] = field(default=())

    @classmethod
    def of(
        cls,
        *,
        loaded: LoadedScenario,
        options: RunOptions,
        profile: str,
        violated: str,
        witness: list[int],
        attempt_digest: str,
        tape: Tape | None,
        events: Sequence[str],
    ) -> FailureFile:
        """Describe the failure of one attempt."""
        return cls(
            scenario_id=loaded.id,
            scenario_text=loaded.text,
            target=options.target,
            frontend=options.frontend,
            profile=profile,
            mutant=options.mutant,
            violated=violated,
            witness=witness,
            digest=attempt_digest,
            tape=None if tape is None else tape.to_json(),
            events=list(events)[:EVENTS_MAX],
        )

    @property
    def name(self) -> str:
        """A file name from scenario, promise and digest: the same failure has the same name."""
        stem = re.sub(r"[^A-Za-z0-9.]+", "-", f"{self.scenario_id}.{self.violated}").strip("-")
        mark = self.digest or hashlib.sha256("\n".join(self.events).encode()).hexdigest()
        return f"{stem}-{mark[:8]}.json"


def write_failure(failure: FailureFile, out: Path | None) -> Path:
    """Write a failure file into ``out`` (created if missing) and return its path."""
    folder = Path(OUT_DEFAULT) if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / failure.name
    document = {"format": FORMAT, "tool": tool_version(), **asdict(failure)}
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
    return path


REQUIRED: dict[str, type | tuple[type, ...]] = {
    "scenario_id": str,
    "scenario_text": str,
    "target": str,
    "profile": str,
    "violated": str,
    "witness": list,
    "digest": str,
}
OPTIONAL: dict[str, type | tuple[type, ...]] = {
    "frontend": (str, type(None)),
    "mutant": (str, type(None)),
    "tape": (dict, type(None)),
    "events": list,
}


def read_failure(path: Path) -> FailureFile:
    """Read and check a failure file.

    Raises:
        FailureFileError: not readable, not JSON, another format, a missing or wrong field.
    """
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            msg = f"{path}: larger than {FILE_BYTES_MAX >> 20} MiB; this is no failure file"
            raise FailureFileError(msg)
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise FailureFileError(msg) from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        msg = f"{path}: is not JSON ({error}); replay takes the file that a failed run wrote"
        raise FailureFileError(msg) from error
    if not isinstance(document, dict) or "format" not in document:
        msg = f"{path}: is no failure file (no 'format'); replay takes what a failed run wrote"
        raise FailureFileError(msg)
    if document["format"] != FORMAT:
        msg = (
            f"{path}: has format {document['format']!r}, this version reads format {FORMAT}; "
            f"it was written by wavecheck {document.get('tool', '(unknown)')}"
        )
        raise FailureFileError(msg)
    _check_fields(path, document)
    names = [*REQUIRED, *OPTIONAL]
    return FailureFile(**{"frontend": None, "mutant": None, "tape": None, **{
        name: document[name] for name in names if name in document
    }})  # fmt: skip


def _check_fields(path: Path, document: dict[str, Any]) -> None:
    for name, kind in {**REQUIRED, **OPTIONAL}.items():
        if name not in document:
            if name in REQUIRED:
                msg = f"{path}: lacks the field {name!r}"
                raise FailureFileError(msg)
            continue
        if not isinstance(document[name], kind):
            msg = f"{path}: field {name!r} has the wrong type {type(document[name]).__name__}"
            raise FailureFileError(msg)
    if not all(isinstance(item, int) for item in document["witness"]):
        msg = f"{path}: field 'witness' must be a list of trace numbers"
        raise FailureFileError(msg)
