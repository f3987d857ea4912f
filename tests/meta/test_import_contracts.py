"""The import contracts cover every module that they are about."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_module_of_the_client_but_the_protocol_is_closed_to_mock_engines() -> None:
    """A new module of the client must be added to the contract, or mock engines could lean on it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [
        c
        for c in settings["tool"]["importlinter"]["contracts"]
        if c.get("source_modules") == ["mock_engines"]
    ]
    there = {
        f"client.{path.stem}"
        for path in (ROOT / "client").iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").exists())
        and path.stem not in ("__init__", "protocol")
    }
    assert sorted(contract["forbidden_modules"]) == sorted(there)
