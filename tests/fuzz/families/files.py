"""Files that people pass on: scenarios and failure files."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from random import Random  # noqa: TID251
from typing import Any

import yaml

from client.protocol.profiles import RELEASES
from harness.failure import (
    FIELDS,
    FailureFile,
    FailureFileError,
    failure_text,
    read_failure,
)
from harness.replay import open_failure
from harness.scenario.loader import ScenarioFileError, builtin_dir, load, parse
from harness.scenario.writing import scenario_text
from harness.targets.base import TargetError
from tests.fuzz.model import Finding, Input
from tests.fuzz.mutate import garbled
from tests.fuzz.texts import VALUES, YAML, broken_json, mutated, spliced

SCENARIO_BYTES_MAX = 6_000
"""Seeds are shorter scenarios: longer ones cost more time and say nothing new."""
PROBLEM_CHARS_MAX = 4_000
YAML_VALUES = tuple(v for v in VALUES if v != "\ud800" and v == v)


@functools.cache
def texts() -> tuple[str, ...]:
    """Scenarios of the collection that inputs are made of."""
    files = sorted(builtin_dir().rglob("*.yaml"))
    found = [file.read_text(encoding="utf-8") for file in files]
    return tuple(text for text in found if len(text) < SCENARIO_BYTES_MAX)[::3]


@functools.cache
def trees() -> tuple[Any, ...]:
    """The same as plain data."""
    return tuple(yaml.load(text, yaml.CBaseLoader) for text in texts())


class Folder:
    """A temporary folder with one file."""

    def __init__(self, name: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="wavecheck-fuzz-")
        self.path = Path(self._folder.name) / name

    def put(self, content: bytes) -> Path:
        """Write the file."""
        self.path.write_bytes(content)
        return self.path

    def close(self) -> None:
        """Remove it."""
        self._folder.cleanup()


class Scenarios:
    """Scenario files."""

    name = "scenario"

    def __init__(self) -> None:
        self._folder = Folder("story.yaml")

    def make(self, rng: Random) -> Input:
        """Draw one input: broken as text or as data."""
        if rng.random() < 0.45:
            text = rng.choice(texts()).encode()
            for _ in range(rng.choice((1, 1, 2))):
                text = spliced(text, YAML, rng) if rng.random() < 0.8 else garbled(text, rng)
        else:
            tree = _typed(rng.choice(trees()))
            for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
                tree = mutated(tree, rng, YAML_VALUES)
            dumped: str = yaml.dump(tree, Dumper=yaml.CSafeDumper, allow_unicode=rng.random() < 0.5)
            text = dumped.encode("utf-8", "surrogatepass")
        return Input(RELEASES[-1], "file", (text,))

    def check(self, given: Input) -> str:
        """Load it; what is taken can be written and is the same when it is read again."""
        path = self._folder.put(b"".join(given.frames))
        try:
            loaded = load(path)
        except ScenarioFileError as error:
            return self._refused(error, given)
        text = given.frames[0] if given.frames else b""
        if b"!!" in text and _has_tag(text):
            raise Finding("a tag was taken")
        plain = loaded.scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)
        again = parse(scenario_text(plain), path, name=loaded.id)
        if again.scenario != loaded.scenario:
            raise Finding("written and read again it is another scenario")
        return "accepted"

    @staticmethod
    def _refused(error: ScenarioFileError, given: Input) -> str:
        lines = b"".join(given.frames).decode("utf-8", "replace").splitlines()
        if not error.problems:
            raise Finding("refused without a problem")
        for problem in error.problems:
            if problem.place is not None and not 1 <= problem.place.line <= len(lines) + 1:
                raise Finding(f"place {problem.place} is outside of {len(lines)} lines")
            if len(problem.title) > PROBLEM_CHARS_MAX:
                raise Finding(f"a problem of {len(problem.title)} characters")
        return "refused"

    def close(self) -> None:
        """Remove the folder."""
        self._folder.close()


def _has_tag(text: bytes) -> bool:
    try:
        events = list(yaml.parse(text.decode("utf-8-sig"), yaml.CSafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError):
        return False
    return any(getattr(event, "tag", None) is not None for event in events)


def _typed(tree: Any) -> Any:
    """Numbers and truth values of the base loader's texts."""
    if type(tree) is dict:
        return {key: _typed(value) for key, value in tree.items()}
    if type(tree) is list:
        return [_typed(item) for item in tree]
    if tree.isdigit() and len(tree) < 10:
        return int(tree)
    return {"true": True, "false": False, "null": None}.get(tree, tree)


STORY = """\
title: A story
promise: It ends.
refs: [vllm#52671]
steps:
  - call: {id: chat}
  - finish: chat
"""


def _failure(rng: Random) -> dict[str, Any]:
    """A valid failure file, as data."""
    failure = FailureFile(
        scenario_id="requests/story", scenario_text=STORY, target="sim", frontend=None,
        profile=rng.choice(RELEASES), mutant=None, violated="request.accepted-ends",
        witness=[1, 2], digest="ab" * 8, events=["#1 call", "#2 end"],
        tape={"format": 1, "choices": "0/2*5 1/3", "names": ["a", "b"], "labels": [[0, 1]] * 6},
        departures=["1: b before a"], stalls=[3],
        recording={"fields": [{"a": 1}], "messages": [
            {"engine": 0, "socket": "output", "direction": "up", "frames": ["00"], "sizes": [1], "events": [1]}]},
    )  # fmt: skip
    document: dict[str, Any] = json.loads(failure_text(failure))
    return document


class Failures:
    """Failure files."""

    name = "failure"

    def __init__(self) -> None:
        self._folder = Folder("failure.json")

    def make(self, rng: Random) -> Input:
        """Draw one input."""
        tree = _failure(rng)
        if rng.random() < 0.2:
            old = rng.choice((1, 2, 3))
            tree["format"] = old
            tree.pop("recording")
            for key in ("departures", "stalls") if old < 3 else ():
                tree.pop(key)
        return Input(RELEASES[-1], "file", (broken_json(tree, rng),))

    def check(self, given: Input) -> str:
        """Read it, and open it for a replay unless it names a target outside of this process."""
        path = self._folder.put(b"".join(given.frames))
        try:
            failure = read_failure(path)
        except FailureFileError as error:
            return _short(error)
        self._plain(given)
        self._folder.path.write_text(failure_text(failure), encoding="utf-8")
        if read_failure(path) != failure:
            raise Finding("written and read again it is another failure")
        if failure.target != "sim":
            return "accepted, of another target"
        try:
            open_failure(path)
        except (FailureFileError, ScenarioFileError, TargetError) as error:
            return f"accepted, {_short(error)}"
        return "accepted, opened"

    @staticmethod
    def _plain(given: Input) -> None:
        """What was taken is one JSON object of known keys, none of them twice."""
        seen: list[str] = []

        def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
            seen[:] = [key for key, _ in found]
            if len(set(seen)) != len(seen):
                raise Finding("a key that stands twice was taken")
            return dict(found)

        def constant(word: str) -> None:
            raise Finding(f"{word} was taken, which JSON has not")

        json.loads(given.frames[0], object_pairs_hook=pairs, parse_constant=constant)
        if set(seen) - {"format", "tool", *FIELDS}:
            raise Finding("an unknown key was taken")

    def close(self) -> None:
        """Remove the folder."""
        self._folder.close()


def _short(error: Exception) -> str:
    if len(str(error)) > PROBLEM_CHARS_MAX:
        raise Finding(f"the error is {len(str(error))} characters long: {str(error)[:200]}")
    return f"refused {type(error).__name__}"
