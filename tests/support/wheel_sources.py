"""Fixture ``tree``: sources of a release; skipped with the reason where they cannot be had."""

from __future__ import annotations

import functools

import pytest

from harness.targets.base import TargetError
from harness.targets.vllm_py import sources


@functools.cache
def tree_or_reason(release):
    """The sources, or why there are none."""
    try:
        return sources.resolve(release)
    except TargetError as error:
        return f"no sources of vLLM {release}: {str(error).splitlines()[0]}"


@pytest.fixture
def tree():
    """Return ``tree(release)``."""

    def get(release):
        found = tree_or_reason(release)
        if isinstance(found, str):
            pytest.skip(found)
        return found

    return get
