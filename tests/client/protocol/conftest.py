"""Loads the strategies; tests here run from any folder and any import mode."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from client.protocol.codec import Codec
from client.protocol.profiles import RELEASES, profile_for


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """Hypothesis strategies and ready-made messages, by release."""
    name = "wavecheck_message_strategies"
    path = Path(__file__).with_name("message_strategies.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=RELEASES)
def codec(request) -> Codec:
    return Codec(profile_for(request.param))


@pytest.fixture(scope="session")
def newest() -> Codec:
    return Codec(profile_for(RELEASES[-1]))
