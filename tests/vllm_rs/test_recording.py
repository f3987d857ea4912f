"""The proxy of ``wavecheck record`` between a real frontend and mock engines."""

from __future__ import annotations

import pytest

from client.protocol.profiles import profile_for
from harness.capture.file import read_file
from harness.capture.kinds import UNKNOWN, kind_of_frame
from harness.recording.folder import make
from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import load as load_file
from harness.targets.registry import open_target
from harness.targets.request import TargetRequest
from harness.targets.vllm_rs.fetch import available
from tests.harness.recording.test_proxy import by_socket
from tests.support.proxied import play_through_proxy
from tests.support.stories import load

pytestmark = [pytest.mark.vllm_rs, pytest.mark.zmq, pytest.mark.slow]

STORY = """
topology: {topology}
engines:
  - engine: 1
    rules:
      - {{on: add, request: "*cut*", do: {{stream: {{tokens: 3, pause_at: 1, gate: rest}}}}}}
      - {{on: utility, method: reset_mm_cache, do: {{fail: no memory}}}}
steps:
  - call: {{id: one, rank: 0}}
  - call: {{id: two, rank: 1, max_tokens: 20}}
  - finish: [one, two]
  - utility: {{id: s, method: is_sleeping}}
  - utility: {{id: m, method: reset_mm_cache}}
  - finish: [s, m]
  - expect: {{op: m, outcome: failed}}
  - call: {{id: cut, rank: 1}}
  - wait: {{event: call-output, request: cut}}
  - drop: cut
  - fence: true
  - expect: {{count: {{event: abort, engine: 1, equals: 1}}}}
  - open: rest
"""
TOPOLOGIES = (
    "{engines: 2, coordinator: in-process}",
    "{engines: 2}",
    "{engines: 2, transport: bootstrapped, coordinator: external}",
)


@pytest.mark.parametrize("release", ["0.33.0", "0.28.0"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_real_frontend_and_its_engines_talk_through_the_proxy(tmp_path, release, topology):
    if available(release) is None:
        pytest.skip(f"no binary of the frontend {release}")
    target = open_target(TargetRequest("vllm-rs", frontend=release))
    scenario = load(STORY.format(topology=topology)).scenario
    path = tmp_path / "frames.jsonl"
    through = play_through_proxy(scenario, target, release, path)
    assert through.violated == []
    (recorded,) = read_file(path).stories
    assert by_socket(recorded.frames) == by_socket(through.at_engines)
    assert UNKNOWN not in {kind_of_frame(frame).name for frame in recorded.frames}
    assert through.guess.release == release
    made = make(tmp_path, path, release=None, why="a test", redacted=False)
    assert (made.release, made.ranks) == (release, (0, 1))
    assert made.vectors >= 10
    again = load_file(tmp_path / "scenario.yaml")
    result = run_scenario(again, RunOptions())
    assert (result.status, result.error) == ("held", None)
    assert profile_for(release).release in again.scenario.profiles
