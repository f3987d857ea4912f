"""One mutant against some tests, in a process of its own and in a copy of the tree.

The parent has the libraries loaded and none of the project, so a fork starts in milliseconds and
imports the mutant afresh. The mutant is written to the copy, so child processes of tests run it
too. Tests draw by a fixed seed, and a failing example is not made smaller: nobody reads it.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.stateful
import msgpack  # loaded here once: a fork need not load it again
import pydantic
import pytest
import simpy
import yaml

from tests.mutation.mutants import Mutant
from tests.mutation.selection import MARKS

LOADED = (hypothesis.stateful, msgpack, pydantic, simpy, yaml)

LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "*.egg-info", "wavecheck-out", "build", "dist", "node_modules"
)

MEMORY = 4 << 30
"""Bytes of address space of a trial: a mutant that fills memory dies of it, not the machine."""

OURS = ("client", "mock_engines", "harness", "tests")


@dataclass(frozen=True)
class Outcome:
    """``end``: ``passed``, ``failed``, ``import``, ``crash`` or ``timeout``; ``witness``: test."""

    end: str
    witness: str


class Tree:
    """A copy of the project in which one module at a time is changed."""

    def __init__(self, root: Path, place: Path) -> None:
        self.path = place / "tree"
        self._outcome = place / "outcome.json"
        self._log = place / "log.txt"
        shutil.copytree(root, self.path, ignore=LEFT_OUT)

    def said(self, lines: int = 40) -> str:
        """The end of what pytest printed in the last trial."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def begin(self, tests: Iterable[str], *, keep_bytecode: bool = False) -> Trial:
        """Start pytest on these tests, in the tree as it is."""
        self._outcome.unlink(missing_ok=True)
        arguments = (str(self.path), list(tests), str(self._outcome), str(self._log), keep_bytecode)
        process = multiprocessing.get_context("fork").Process(target=_child, args=arguments)
        process.start()
        return Trial(process, self._outcome)

    @contextlib.contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """The tree with the mutant in it.

        Its time differs from the original's, so no old bytecode is taken; afterwards the original
        is back with its own time, and its bytecode counts again.
        """
        path = self.path / mutant.file
        original, times = path.read_bytes(), path.stat()
        path.write_text(mutant.source(original.decode()), encoding="utf-8")
        try:
            yield
        finally:
            path.write_bytes(original)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


class Trial:
    """A running pytest."""

    def __init__(self, process: multiprocessing.process.BaseProcess, outcome: Path) -> None:
        self.process = process
        self._outcome = outcome

    def wait(self, limit: float) -> Outcome:
        """Its outcome, after at most ``limit`` seconds. Nothing that it started is left."""
        try:
            self.process.join(limit)
            late = self.process.is_alive()
        finally:
            self.kill()
        if late:
            return Outcome("timeout", f"still running after {limit:.0f} s")
        try:
            said = json.loads(self._outcome.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Outcome("crash", f"the interpreter ended with {self.process.exitcode}")
        return _outcome(said["code"], said["witness"])

    def kill(self) -> None:
        """End the trial and all that it started."""
        assert self.process.pid is not None
        # All may have ended, or the child may have no group yet.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


def _outcome(code: int, witness: str) -> Outcome:
    if code == pytest.ExitCode.OK:
        return Outcome("passed", "")
    if code == pytest.ExitCode.TESTS_FAILED and witness:
        return Outcome("failed", witness)
    # A module or a conftest that cannot be imported: pytest says interrupted or usage error.
    if code in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR):
        return Outcome("import", witness or "conftest")
    return Outcome("crash", f"pytest ended with {code} {witness}".strip())


class _Witness:
    """Remembers the first thing that failed."""

    def __init__(self) -> None:
        self.first = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.first = self.first or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.first = self.first or report.nodeid


def _child(tree: str, tests: list[str], outcome: str, log: str, keep_bytecode: bool) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    _use(tree, keep_bytecode)
    witness = _Witness()
    arguments: list[Any] = [
        "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", "-m", MARKS,
        # The parent has loaded hypothesis already.
        "-W", "ignore::pytest.PytestAssertRewriteWarning",
        # A mutant such as ``n is 0`` is to die of what it does, not of the compiler's advice.
        "-W", "ignore::SyntaxWarning",
        "--rootdir", tree, "-c", f"{tree}/pyproject.toml",
        "-p", "no:wavecheck",  # it would be the installed one, or of a tree without it
    ]  # fmt: skip
    code = int(pytest.main([*arguments, *tests], plugins=[witness]))
    for name in OURS[:3]:
        module = sys.modules.get(name)
        if module is not None and not str(module.__path__[0]).startswith(tree):
            code, witness.first = -1, f"{name} was imported from {module.__path__[0]}"
    said = json.dumps({"code": code, "witness": witness.first})
    Path(outcome).write_text(said, encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)


def _use(tree: str, keep_bytecode: bool) -> None:
    """Make this process, and those that tests start, import the project from the copy alone."""
    original = str(Path(__file__).resolve().parents[2])
    os.chdir(tree)
    for name in [each for each in sys.modules if each.split(".")[0] in OURS]:
        del sys.modules[name]
    others = [path for path in sys.path if path and Path(path).resolve() != Path(original)]
    sys.path[:] = [tree, *others]
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = not keep_bytecode
    os.environ |= {"PYTHONPATH": tree, "PYTHONDONTWRITEBYTECODE": "1", "WAVECHECK_ROWS_SEED": "0"}
    hypothesis.settings.register_profile(
        "mutation",
        derandomize=True,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    )
    hypothesis.settings.load_profile("mutation")
