"""Invariants are found by what their modules define, and each id is one class's."""

from __future__ import annotations

import pkgutil
import sys
import types

import pytest

from harness import invariants
from harness.invariants.base import Invariant
from harness.invariants.request_add_once import AddOnce


@pytest.fixture
def define(monkeypatch):
    """What is found in the package, and a function that puts a module there.

    The modules are no files: coverage would look for them when they are gone.
    """
    infos: list[pkgutil.ModuleInfo] = []
    monkeypatch.setattr(pkgutil, "iter_modules", lambda _path: infos)

    def one(name, id_):
        path = f"{invariants.__name__}.{name}"
        body = {"id": id_, "handles": (), "__module__": path}
        module = types.ModuleType(path)
        module.Here = type("Here", (Invariant,), dict(body))
        module.NoInvariant = type("NoInvariant", (), dict(body))
        module.AddOnce = AddOnce  # imported there, defined elsewhere
        monkeypatch.setitem(sys.modules, path, module)
        infos.append(pkgutil.ModuleInfo(None, name, ispkg=False))

    return one


def found():
    return invariants.discover.__wrapped__()  # past its cache


def test_classes_that_a_module_defines_and_that_are_invariants_are_found_by_id(define):
    define("one", "test.z")
    define("two", "test.a")
    assert [(cls.id, cls.__name__) for cls in found()] == [("test.a", "Here"), ("test.z", "Here")]


def test_an_id_of_two_classes_is_refused_with_both_files(define):
    define("one", "test.same")
    define("two", "test.same")
    with pytest.raises(RuntimeError, match="is used twice") as caught:
        found()
    assert str(caught.value) == (
        "invariant id 'test.same' is used twice: harness.invariants.one and harness.invariants.two"
    )
