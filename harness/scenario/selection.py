"""From what a user names (files, folders, ids, words) to scenario files, in stable order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from harness.scenario.loader import SUFFIXES, LoadedScenario, builtin_dir, load, scenario_id
from harness.scenario.model import Scenario
from harness.scenario.problems import ScenarioFileError, did_you_mean, nearest


class SelectionError(Exception):
    """What the user named does not exist or selects nothing (exit code 2).

    Attributes:
        help: what to do, or ``""``.
    """

    def __init__(self, message: str, help_text: str = "") -> None:
        super().__init__(message)
        self.help = help_text


class InvalidScenariosError(Exception):
    """Some of the selected files are no valid scenarios."""

    def __init__(self, errors: Sequence[ScenarioFileError]) -> None:
        super().__init__(f"{len(errors)} invalid scenario files")
        self.errors = tuple(errors)


@dataclass(frozen=True, slots=True)
class Found:
    """A scenario file that was selected, not yet loaded."""

    id: str
    path: Path


def find_files(folder: Path) -> list[Path]:
    """Scenario files below a folder, sorted by path; hidden folders are skipped."""
    found: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [
            Path(parent, name)
            for name in names
            if name.endswith(SUFFIXES) and not name.startswith(".")
        ]
    return sorted(found, key=lambda path: path.with_suffix("").parts)


def builtin() -> list[Found]:
    """All built-in scenarios."""
    root = builtin_dir()
    return [Found(scenario_id(path, root), path) for path in find_files(root)]


def select(names: Sequence[str]) -> list[Found]:
    """Resolve paths and ids; all built-in scenarios where nothing is named.

    The id of a built-in scenario, or a chapter (the first parts of an id), comes first; then what
    exists as a file or folder. So ``./waves`` is a folder, ``waves`` the chapter (see
    ``shadowed``).

    Raises:
        SelectionError: a name is neither, a folder holds no scenario, or two files have one id.
    """
    if not names:
        found = builtin()
        if not found:
            msg = f"no scenarios in {builtin_dir()}"
            raise SelectionError(msg)
        return found
    chosen: list[Found] = []
    for name in names:
        chosen += _resolve(name)
    return _unique(chosen)


def shadowed(names: Sequence[str]) -> list[str]:
    """Those names that are built-in, although a file or folder here, elsewhere, has them too."""
    return [name for name in names if _built_in(name) and _elsewhere(Path(name))]


def _built_in(name: str) -> list[Found]:
    """What the id or chapter ``name`` selects; the suffix of a file makes it a path."""
    wanted = name.rstrip("/")
    return [f for f in builtin() if f.id == wanted or f.id.startswith(f"{wanted}/")]


def _elsewhere(path: Path) -> bool:
    return path.exists() and not is_builtin(path)


def is_builtin(path: Path) -> bool:
    """Whether a file is one of the built-in scenarios, however it is named."""
    return _real(path).is_relative_to(_real(builtin_dir()))


def _real(path: Path) -> Path:
    """Where a path leads; one that leads in a circle is no error yet, reading it is."""
    return Path(os.path.realpath(path))


def _resolve(name: str) -> list[Found]:
    if found := _built_in(name):
        return found
    path = Path(name)
    if path.is_dir():
        found = [Found(scenario_id(p, None if _inside(p) else path), p) for p in find_files(path)]
        if not found:
            msg = f"no scenarios in {path}"
            raise SelectionError(msg, f"scenario files end in {' or '.join(SUFFIXES)}")
        return found
    if path.exists():
        return [Found(scenario_id(path), path)]
    wanted = name.strip("/").removesuffix(".yaml")
    every = builtin()
    found = [f for f in every if f.id == wanted or f.id.startswith(f"{wanted}/")]
    if found:
        return found
    if path.suffix in SUFFIXES:
        msg = f"no such file: {name}"
        raise SelectionError(msg, did_you_mean(wanted, [f.id for f in every]))
    msg = f"no scenario, chapter, file or folder is called '{name}'"
    raise SelectionError(msg, _suggest(wanted, every))


def _inside(path: Path) -> bool:
    """Whether a file lies below the built-in folder or a folder called ``scenarios``."""
    full = Path(os.path.abspath(path))
    return full.is_relative_to(builtin_dir()) or any(p.name == "scenarios" for p in full.parents)


def _suggest(wanted: str, every: Sequence[Found]) -> str:
    ids = [f.id for f in every]
    chapters = sorted({name.split("/")[0] for name in ids if "/" in name})
    by_last = {name.split("/")[-1]: name for name in ids}
    near = [
        nearest(wanted, [*ids, *chapters]),
        by_last.get(nearest(wanted.rsplit("/", maxsplit=1)[-1], by_last) or ""),
    ]
    words = list(dict.fromkeys(word for word in near if word))
    if words:
        return "did you mean " + " or ".join(f"'{word}'" for word in words) + "?"
    return f"chapters are {', '.join(chapters)}; see `wavecheck list scenarios`"


def _unique(chosen: Iterable[Found]) -> list[Found]:
    """Drop files that were named twice; refuse two files with one id."""
    by_id: dict[str, Found] = {}
    for found in chosen:
        first = by_id.setdefault(found.id, found)
        if _real(first.path) != _real(found.path):
            msg = f"two files have the id '{found.id}': {first.path} and {found.path}"
            raise SelectionError(msg, "rename one of them")
    return list(by_id.values())


def load_all(found: Iterable[Found]) -> list[LoadedScenario]:
    """Load every file.

    Raises:
        InvalidScenariosError: at least one is invalid; carries the errors of all of them.
    """
    loaded: list[LoadedScenario] = []
    errors: list[ScenarioFileError] = []
    for one in found:
        try:
            scenario = load(one.path)
        except ScenarioFileError as error:
            errors.append(error)
            continue
        loaded.append(
            LoadedScenario(
                one.id, scenario.path, scenario.scenario, scenario.positions, scenario.text
            )
        )
    if errors:
        raise InvalidScenariosError(errors)
    return loaded


def matching(loaded: Iterable[LoadedScenario], word: str) -> list[LoadedScenario]:
    """Those whose id or title holds ``word``; case is ignored."""
    wanted = word.casefold()
    return [
        one
        for one in loaded
        if wanted in one.id.casefold() or wanted in one.scenario.title.casefold()
    ]


def applies(scenario: Scenario, release: str) -> bool:
    """Whether a scenario is about this release."""
    return not scenario.profiles or release in SpecifierSet(scenario.profiles)


def releases_of(scenario: Scenario, releases: Iterable[str]) -> list[str]:
    """The releases that a scenario is about, in the order given."""
    return [release for release in releases if applies(scenario, release)]
