"""Loads the golden files; tests here run from any folder and any import mode."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent


def load_json(name: str) -> Any:
    return json.loads((HERE / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def captured() -> dict[str, list[dict[str, Any]]]:
    return load_json("captured.json")


@pytest.fixture(scope="session")
def strictness() -> list[dict[str, Any]]:
    return load_json("strictness.json")


@pytest.fixture(scope="session")
def startup_strictness() -> list[dict[str, Any]]:
    return load_json("startup_strictness.json")


@pytest.fixture(scope="session")
def msgspec_types() -> ModuleType:
    name = "wavecheck_golden_msgspec_types"
    spec = importlib.util.spec_from_file_location(name, HERE / "msgspec_types.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
