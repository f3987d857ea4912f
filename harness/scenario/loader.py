"""From a scenario file to a checked scenario, or to clear messages with places.

Four stages, and the first that fails speaks alone: read (size, encoding), parse (YAML), types
(the model), checks (names exist and make sense).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from harness.formats import SCENARIO, Form, refusal
from harness.invariants import discover
from harness.reading import NotRegularError, TooLargeError, read_regular
from harness.scenario.checks import Vocabulary, check
from harness.scenario.explain import explain
from harness.scenario.finding import Finding
from harness.scenario.model import Scenario
from harness.scenario.positions import Place, Positions, YamlProblemError, parse_yaml
from harness.scenario.problems import Problem, ScenarioFileError

FILE_BYTES_MAX = 1 << 20
"""Largest scenario file (1 MiB)."""
SUFFIXES = (".yaml", ".yml")
_SHAPE = "a mapping"

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class LoadedScenario:
    """A checked scenario and where it came from.

    Attributes:
        id: path without suffix below the scenarios folder, with ``/``.
        path: the file.
        positions: place of every key and value in ``text``.
    """

    id: str
    path: Path
    scenario: Scenario
    positions: Positions
    text: str


def builtin_dir() -> Path:
    """The folder of built-in scenarios: in the wheel, else beside the packages of a checkout."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "builtin_scenarios"
    return shipped if shipped.is_dir() else package.parent / "scenarios"


@cache
def default_vocabulary() -> Vocabulary:
    """The invariants and releases of this installation."""
    return Vocabulary(frozenset(cls.id for cls in discover()))


def scenario_id(path: Path, root: Path | None = None) -> str:
    """The id of a file: its path without suffix below ``root``.

    Without ``root``: below the built-in folder, below the nearest folder called ``scenarios``,
    or the bare name.
    """
    full = Path(os.path.abspath(path))
    stem = full.with_suffix("")
    roots = [root] if root is not None else [builtin_dir()]
    roots += [parent for parent in full.parents if parent.name == "scenarios"]
    for candidate in roots:
        folder = Path(os.path.abspath(candidate))
        if stem.is_relative_to(folder):
            return stem.relative_to(folder).as_posix()
    return stem.name


def read_text(path: Path) -> str:
    """Read a file of at most 1 MiB as UTF-8, with or without a byte-order mark.

    Raises:
        ScenarioFileError: it cannot be read, is too large, no UTF-8, or empty.
    """
    try:
        raw = read_regular(path, FILE_BYTES_MAX)
    except FileNotFoundError as error:
        raise ScenarioFileError(path, "", [Problem("no such file")]) from error
    except NotRegularError as error:
        kind = "a folder" if error.errno == errno.EISDIR else "not a regular file"
        raise ScenarioFileError(path, "", [Problem(f"this is {kind}")]) from error
    except TooLargeError as error:
        expected = f"at most {FILE_BYTES_MAX} bytes (1 MiB)"
        problem = Problem("the file is too large", expected=expected)
        raise ScenarioFileError(path, "", [problem]) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ScenarioFileError(path, "", [Problem(f"cannot read the file: {reason}")]) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = error.start
        line = raw.count(b"\n", 0, start) + 1
        column = start - (raw.rfind(b"\n", 0, start) + 1) + 1
        problem = Problem(
            "the file is not UTF-8 text",
            Place(line, column),
            seen=f"byte 0x{error.object[start]:02x}",
            help="save the file as UTF-8",
        )
        raise ScenarioFileError(path, "", [problem]) from error


def load_model(
    path: Path, model: type[Model], *, shape: str = _SHAPE
) -> tuple[Model, Positions, str]:
    """Read, parse and type-check a YAML file of any model (scenario, behaviours …).

    Args:
        path: the file.
        model: what is in it.
        shape: what a message says of an empty file: what it should be.

    Returns:
        The model, the places of its values, and the file's text.

    Raises:
        ScenarioFileError: with every problem of the first stage that failed.
    """
    return parse_model(read_text(path), path, model, shape=shape)


def parse_model(
    text: str, path: Path, model: type[Model], *, shape: str = _SHAPE, form: Form | None = None
) -> tuple[Model, Positions, str]:
    """Like ``load_model``, for text that was read already; ``path`` is for messages.

    ``form``: what the file is. One whose key says another version is refused for that alone:
    what else it holds may mean something else there.

    Raises:
        ScenarioFileError: as above.
    """
    try:
        data, positions = parse_yaml(text)
    except YamlProblemError as error:
        problem = Problem(error.message, error.place, help=error.help_text)
        raise ScenarioFileError(path, text, [problem]) from error
    if data is None:
        problem = Problem("the file is empty", expected=f"{shape}; see docs/scenarios.md")
        raise ScenarioFileError(path, text, [problem])
    if form is not None and isinstance(data, dict) and type(data.get(form.key)) is int:
        refused = refusal(form, data[form.key])
        if refused is not None:
            place = positions.find((form.key,))
            raise ScenarioFileError(path, text, [Problem(refused.title, place, help=refused.help)])
    try:
        return model.model_validate(data), positions, text
    except ValidationError as error:
        raise ScenarioFileError(path, text, explain(error, model, positions)) from error


def load(
    path: Path, *, root: Path | None = None, vocabulary: Vocabulary | None = None
) -> LoadedScenario:
    """Load and check one scenario file.

    Args:
        path: the file, as the user named it; messages repeat it.
        root: folder that the id is relative to, if it is known.
        vocabulary: names outside the model; this installation's by default.

    Raises:
        ScenarioFileError: with every problem of the first stage that failed.
    """
    return parse(read_text(path), path, name=scenario_id(path, root), vocabulary=vocabulary)


def parse(
    text: str, path: Path, *, name: str, vocabulary: Vocabulary | None = None
) -> LoadedScenario:
    """Check a scenario's text, e.g. from a failure file.

    Raises:
        ScenarioFileError: with every problem of the first stage that failed.
    """
    scenario, positions, _ = parse_model(text, path, Scenario, form=SCENARIO)
    found = check(scenario, default_vocabulary() if vocabulary is None else vocabulary)
    if found:
        raise ScenarioFileError(path, text, placed(found, positions))
    return LoadedScenario(name, path, scenario, positions, text)


def placed(found: Iterable[Finding], positions: Positions) -> list[Problem]:
    """Give findings their places in the file, and sort them by these."""
    problems = [
        Problem(
            f.title,
            positions.find(f.path, key=f.on_key),
            expected=f.expected,
            seen=f.seen,
            help=f.help,
        )
        for f in found
    ]
    return sorted(problems, key=lambda p: (p.place.line, p.place.column) if p.place else (0, 0))
