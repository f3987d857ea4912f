"""Failure files: one readable JSON file that replays a failure, taking nothing from outside.

It holds the whole scenario, the profile, target and mutant, the tape of choices, the promise
that broke, its witness, the digest of the run and the order of events.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from client.protocol.strict_json import loads
from harness.files import write_own
from harness.formats import FAILURE, refusal
from harness.reading import NotRegularError, TooLargeError, read_regular
from harness.scenario.loader import LoadedScenario
from harness.shortened import shortened
from harness.tape import Tape
from harness.targets.registry import takes_mutant
from harness.targets.request import TargetRequest
from harness.version import tool_version

if TYPE_CHECKING:
    from harness.runner import RunOptions

FORMAT = FAILURE.current
"""Version of the file format. 1 knows nothing of how a frontend is started, 1 and 2 nothing of
departures from FIFO order, 1 to 3 nothing of payloads and bytes; all of them are read."""
FILE_BYTES_MAX = 16 << 20
OUT_DEFAULT = "wavecheck-out"
EVENTS_MAX = 5_000
STEM_MAX = 200
"""Characters of a file name that tell scenario and promise; systems allow 255 in all."""


class FailureFileError(Exception):
    """The file cannot be replayed; the message says why and what is needed (exit code 2)."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


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
        frontend_args, frontend_env, attach, adapter: as in ``RunOptions``; since format 2.
        departures: where the tape leaves FIFO order, one line each; ``None``: nobody looked, or
            there is no tape; since format 3.
        stalls: numbers of the choices at which something is left out, if that is all that the
            tape does, counted where strategies are asked; since format 3.
        recording: payloads and bytes of a run that cannot be played again, as
            ``capture.kept.keep`` gives them; since format 4.
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
    frontend_args: Sequence[str] = field(default_factory=list)
    frontend_env: Sequence[Sequence[str]] = field(default_factory=list)
    attach: str | None = None
    adapter: str | None = None
    departures: Sequence[str] | None = None
    stalls: Sequence[int] | None = None
    recording: Mapping[str, Any] | None = None

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
        departures: Sequence[str] | None = None,
        stalls: Sequence[int] | None = None,
        recording: Mapping[str, Any] | None = None,
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
            frontend_args=list(options.frontend_args),
            frontend_env=[list(pair) for pair in options.frontend_env],
            attach=options.attach,
            adapter=options.adapter,
            departures=None if departures is None else list(departures),
            stalls=None if stalls is None else list(stalls),
            recording=recording,
        )

    @property
    def request(self) -> TargetRequest:
        """What the target is asked for."""
        return TargetRequest(
            kind=self.target,
            frontend=self.frontend,
            profile=self.profile,
            arguments=tuple(self.frontend_args),
            environment=tuple((pair[0], pair[1]) for pair in self.frontend_env),
            mutant=self.mutant if takes_mutant(self.target) else None,
            attach=self.attach,
            adapter=self.adapter,
        )

    @property
    def settings(self) -> list[str]:
        """What it was seen on and how that was started, as far as it was not the default."""
        given = {
            "target": self.target,
            "frontend": self.frontend,
            "attached to": self.attach,
            "adapter": self.adapter,
            "profile": self.profile,
            "mutant": self.mutant,
        }
        told = [f"{name} {value}" for name, value in given.items() if value is not None]
        told += [f"frontend-arg {shlex.quote(word)}" for word in self.frontend_args]
        told += [f"frontend-env {name}" for name, _ in self.request.environment]
        return told

    @property
    def name(self) -> str:
        """A file name without a folder: the same failure has the same name, another one has not."""
        stem = re.sub(r"[^A-Za-z0-9.]+", "-", f"{self.scenario_id}.{self.violated}").strip("-.")
        run = [self.digest] if self.digest else list(self.events)
        what: list[Any] = [self.scenario_id, self.target, self.frontend, self.profile]
        what += [self.mutant, self.violated, run]
        how: list[Any] = [self.frontend_args, self.frontend_env, self.attach, self.adapter]
        what += [how] if any(how) else []
        mark = hashlib.sha256(json.dumps(what).encode()).hexdigest()
        return f"{stem[-STEM_MAX:]}-{mark[:8]}.json"


def failure_text(failure: FailureFile) -> str:
    """What stands in a failure file."""
    document = {"format": FORMAT, "tool": tool_version(), **asdict(failure)}
    return json.dumps(document, indent=1) + "\n"


def write_failure(failure: FailureFile, out: Path | None) -> Path:
    """Write a failure file into ``out`` (created if missing) and return its path."""
    return place_failure(failure.name, failure_text(failure), out)


def place_failure(name: str, text: str, out: Path | None) -> Path:
    """Write the text of a failure file under its name into ``out``, and return its path."""
    folder = Path(OUT_DEFAULT) if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    write_own(path, text)
    return path


FIELDS: dict[str, tuple[type, ...]] = {
    "scenario_id": (str,),
    "scenario_text": (str,),
    "target": (str,),
    "frontend": (str, type(None)),
    "profile": (str,),
    "mutant": (str, type(None)),
    "violated": (str,),
    "witness": (list,),
    "digest": (str,),
    "tape": (dict, type(None)),
    "events": (list,),
    "frontend_args": (list,),
    "frontend_env": (list,),
    "attach": (str, type(None)),
    "adapter": (str, type(None)),
    "departures": (list, type(None)),
    "stalls": (list, type(None)),
    "recording": (dict, type(None)),
}
"""Fields of a file beside ``format`` and ``tool``: all must be there, and no others."""
SINCE_2: Mapping[str, Any] = {
    "frontend_args": [],
    "frontend_env": [],
    "attach": None,
    "adapter": None,
}
"""Fields that format 1 lacks, and what they are then."""
SINCE_3: Mapping[str, Any] = {"departures": None, "stalls": None}
"""Fields that formats 1 and 2 lack."""
SINCE_4: Mapping[str, Any] = {"recording": None}
"""Fields that formats 1 to 3 lack."""
ITEMS: dict[str, tuple[type, str]] = {
    "witness": (int, "trace numbers"),
    "events": (str, "lines of text"),
    "frontend_args": (str, "arguments"),
    "frontend_env": (list, "pairs of a name and a value"),
    "departures": (str, "lines of text"),
    "stalls": (int, "numbers of choices"),
}
"""What the lists hold."""


def read_failure(path: Path) -> FailureFile:
    """Read and check a failure file.

    Raises:
        FailureFileError: not readable, not JSON, another format, a missing, wrong or unknown field.
    """
    try:
        document = loads(read_regular(path, FILE_BYTES_MAX).decode("utf-8"))
    except NotRegularError as error:
        why = "a folder" if error.errno == errno.EISDIR else "not a regular file"
        msg = f"{path}: is {why}; replay takes the file that a failed run wrote"
        raise FailureFileError(msg) from error
    except TooLargeError as error:
        msg = f"{path}: {error.strerror}; this is no failure file"
        raise FailureFileError(msg) from error
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise FailureFileError(msg) from error
    except ValueError as error:
        msg = f"{path}: is not JSON ({error}); replay takes the file that a failed run wrote"
        raise FailureFileError(msg) from error
    if not isinstance(document, dict) or "format" not in document:
        msg = f"{path}: is no failure file (no 'format'); replay takes what a failed run wrote"
        raise FailureFileError(msg)
    if refused := refusal(FAILURE, document["format"], document.get("tool")):
        msg = f"{path}: {refused.title}; {refused.help}"
        raise FailureFileError(msg)
    if document["format"] == 1:
        document = {**SINCE_2, **document}
    if document["format"] in (1, 2):
        document = {**SINCE_3, **document}
    if document["format"] in (1, 2, 3):
        document = {**SINCE_4, **document}
    _check_fields(path, document)
    return FailureFile(**{name: document[name] for name in FIELDS})


def _check_fields(path: Path, document: dict[str, Any]) -> None:
    for name, kinds in FIELDS.items():
        if name not in document:
            msg = f"{path}: lacks the field {name!r}"
            raise FailureFileError(msg)
        if type(document[name]) not in kinds:
            msg = f"{path}: field {name!r} has the wrong type {type(document[name]).__name__}"
            raise FailureFileError(msg)
    for name, (kind, what) in ITEMS.items():
        if any(type(item) is not kind for item in document[name] or ()):
            msg = f"{path}: field {name!r} must be a list of {what}"
            raise FailureFileError(msg)
    if any(len(p) != 2 or not all(type(w) is str for w in p) for p in document["frontend_env"]):
        msg = f"{path}: field 'frontend_env' must be a list of pairs of a name and a value"
        raise FailureFileError(msg)
    if unknown := [name for name in document if name not in {"format", "tool", *FIELDS}]:
        msg = f"{path}: has the unknown field {unknown[0]!r}"
        raise FailureFileError(msg)
