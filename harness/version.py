"""The tool's own version."""

from __future__ import annotations

import importlib.metadata


def tool_version() -> str:
    """Version of the installed distribution."""
    return importlib.metadata.version("wavecheck")
