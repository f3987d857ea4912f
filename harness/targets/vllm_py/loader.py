"""Executes vLLM's own modules of one release, everything round them stubbed.

``install`` puts a finder before all others, in a process that does nothing else. A module that
``members.EXECUTED`` names comes from the sources folder, and only if its bytes have the recorded
checksum; all other modules of vLLM, torch and the like are stubs. ``prove`` says for a class
whether it is vLLM's; nothing is judged of one that is not.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.targets.vllm_py import given, stubs
from harness.targets.vllm_py.members import EXECUTED, STUBBED_ROOTS, member_of


class ForeignClassError(RuntimeError):
    """A class, or the file that it comes from, is not vLLM's of this release."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Where a class comes from. ``sha256``: hexadecimal, of the file and of what was executed."""

    name: str
    file: str
    sha256: str


class _Executed(importlib.abc.Loader):
    """Compiles exactly the bytes that were checked."""

    def __init__(self, path: Path, expected: str | None) -> None:
        self._path = path
        self._expected = expected
        self.sha256 = ""

    def exec_module(self, module: ModuleType) -> None:
        source = self._path.read_bytes()
        self.sha256 = hashlib.sha256(source).hexdigest()
        if self._expected is not None and self.sha256 != self._expected:
            msg = (
                f"{self._path} is not the file of the release: its sha256 is {self.sha256}, "
                f"recorded is {self._expected}"
            )
            raise ForeignClassError(msg)
        code = compile(source, str(self._path), "exec", dont_inherit=True)
        with stubs.importing():
            exec(code, module.__dict__)


class _Stub(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return stubs.StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Given(_Stub):
    """A small stand-in of ours, for what vLLM's code really calls (the logger); else a stub."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(given.MODULES[module.__name__]())


class Finder(importlib.abc.MetaPathFinder):
    """Decides for each import: vLLM's own source, a stand-in, a stub, or nobody's business."""

    def __init__(self, folder: Path, checksums: Mapping[str, str] | None) -> None:
        self._folder = folder
        self._checksums = checksums

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Say how a module is loaded, if it is one of ours to decide."""
        del path, target
        if fullname.partition(".")[0] not in STUBBED_ROOTS:
            return None
        if fullname in given.MODULES:
            return importlib.machinery.ModuleSpec(fullname, _Given(), is_package=True)
        if fullname in EXECUTED:
            return self._source(fullname)
        return importlib.machinery.ModuleSpec(fullname, _Stub(), is_package=True)

    def _source(self, fullname: str) -> importlib.machinery.ModuleSpec:
        for package in (False, True):
            member = member_of(fullname, package=package)
            file = self._folder / member
            if not file.is_file():
                continue
            expected = None
            if self._checksums is not None:
                expected = self._checksums.get(member)
                if expected is None:
                    msg = f"{file} is no file of this release"
                    raise ForeignClassError(msg)
            loader = _Executed(file, expected)
            spec = importlib.machinery.ModuleSpec(
                fullname, loader, origin=str(file), is_package=package
            )
            spec.has_location = True
            return spec
        # A module that this release has not: what asks for it gets a stub.
        return importlib.machinery.ModuleSpec(fullname, _Stub(), is_package=True)


class Loaded:
    """vLLM's modules of one release, in this process.

    Args:
        folder: with ``vllm/…`` below it.
        checksums: member → hexadecimal SHA-256; ``None`` executes whatever is there.
    """

    def __init__(self, folder: Path, checksums: Mapping[str, str] | None) -> None:
        self.folder = folder.resolve()
        self._checksums = checksums
        present = [name for name in sys.modules if name.partition(".")[0] in STUBBED_ROOTS]
        if present:
            msg = f"{present[0]} is imported already; vLLM's classes need a process of their own"
            raise ForeignClassError(msg)
        self._finder = Finder(self.folder, checksums)
        sys.meta_path.insert(0, self._finder)

    def module(self, name: str) -> ModuleType:
        """Import a module of vLLM."""
        return importlib.import_module(name)

    def get(self, module: str, name: str) -> Any:
        """Return a class of vLLM, proven.

        Raises:
            ForeignClassError: it is not vLLM's.
        """
        value = getattr(self.module(module), name)
        self.prove(value)
        return value

    def prove(self, cls: Any) -> Proof:
        """Say where a class comes from.

        Raises:
            ForeignClassError: it was not executed from a file of the release's sources.
        """
        name = f"{getattr(cls, '__module__', '?')}.{getattr(cls, '__qualname__', repr(cls))}"
        if not inspect.isclass(cls) or (isinstance(cls, stubs.StubMeta) and "_stub" in vars(cls)):
            msg = f"{name} is not a class of vLLM's"
            raise ForeignClassError(msg)
        module = sys.modules.get(cls.__module__)
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        own = None if module is None else vars(module).get(cls.__name__)
        if module is None or not isinstance(loader, _Executed) or own is not cls:
            msg = f"{name} is not vLLM's: it was not executed from the sources of the release"
            raise ForeignClassError(msg)
        file = Path(str(module.__file__)).resolve()
        if not file.is_relative_to(self.folder):
            msg = f"{name} is not vLLM's: {file} is not below {self.folder}"
            raise ForeignClassError(msg)
        if foreign := sorted(_files_of(own) - {file}):
            msg = f"{name} has methods that are not vLLM's: {', '.join(map(str, foreign))}"
            raise ForeignClassError(msg)
        return Proof(name, str(file), loader.sha256)


def _files_of(cls: type) -> set[Path]:
    """Files that the functions of a class were compiled from, without those made for dataclasses."""
    generated = "__dataclass_fields__" in vars(cls)
    files = set()
    for name, value in vars(cls).items():
        accessors = (
            (value.fget, value.fset, value.fdel) if isinstance(value, property) else (value,)
        )
        for accessor in accessors:
            plain = getattr(accessor, "__func__", accessor)
            code = getattr(inspect.unwrap(plain) if callable(plain) else plain, "__code__", None)
            if code is not None and not (generated and name.startswith("__")):
                files.add(Path(code.co_filename).resolve())
    return files
