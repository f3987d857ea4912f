"""What pytest loads: hooks and fixtures. Everything of weight is imported where it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.pytest_plugin.options import add_options, words_of
from harness.pytest_plugin.sniffing import is_scenario

if TYPE_CHECKING:
    from harness.pytest_plugin.lab import Lab, MakeClient, MakeCluster
    from harness.pytest_plugin.playing import Playing

_PLAYING: pytest.StashKey[Playing] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``wavecheck run``."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register our marker, and refuse options that are wrong before anything is collected.

    Raises:
        pytest.UsageError: they are.
    """
    config.addinivalue_line(
        "markers", "wavecheck: a scenario of wavecheck; its chapter is a marker, too"
    )
    if config.getoption("markers", False):
        from harness.pytest_plugin.chapters import register_builtin

        register_builtin(config)
    if words_of(config):
        _playing(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a scenario file."""
    if not is_scenario(file_path, named=parent.session.isinitpath(file_path)):
        return None
    return ScenarioFile.from_parent(parent, path=file_path)


class ScenarioFile(pytest.File):
    """A scenario file. Of one that nobody asks for the items, nothing is loaded."""

    def collect(self) -> Iterator[pytest.Item]:
        """Load it.

        Raises:
            CollectError: it is not valid.
        """
        from harness.pytest_plugin.items import items_of

        yield from items_of(self, _playing(self.config))


def _playing(config: pytest.Config) -> Playing:
    """How scenarios are played in this run; made when it is asked for first."""
    found = config.stash.get(_PLAYING, None)
    if found is None:
        from harness.pytest_plugin.playing import Playing

        found = config.stash[_PLAYING] = Playing(config)
        config.pluginmanager.register(found, "wavecheck-playing")
    return found


@pytest.fixture
def simulate() -> Lab:
    """Run a story (an ``async def``) in the simulated loop, or with ``target="zmq"`` on sockets."""
    from harness.pytest_plugin.lab import Lab

    return Lab()


@pytest.fixture
def wavecheck_cluster(simulate: Lab) -> MakeCluster:
    """Mock engines, started inside a story by awaiting this."""
    return simulate.cluster


@pytest.fixture
def wavecheck_client(simulate: Lab) -> MakeClient:
    """The reference client, connected inside a story to a cluster by awaiting this."""
    return simulate.client
