"""Targets sim and zmq: one frontend, two worlds, and the same promises."""

from __future__ import annotations

import pytest

from client.protocol.profiles import NEWEST, RELEASES, profile_for
from harness.invariants import discover
from harness.runner import RunOptions, run_scenario
from harness.scenario.needs import needs
from harness.targets.reference import SimTarget, ZmqTarget, make_client_frontend
from harness.version import tool_version
from harness.worlds import SimWorld, ZmqWorld
from tests.support.stories import load

IN_TIME = {one.id for one in discover() if "world.virtual-time" in one.needs}
"""Invariants that need a virtual clock."""


def test_both_declare_the_same_but_for_virtual_time():
    sim, zmq = SimTarget(), ZmqTarget()
    assert sim.info.capabilities - zmq.info.capabilities == {"world.virtual-time"}
    assert zmq.info.capabilities < sim.info.capabilities
    assert sim.info.version == zmq.info.version == tool_version()
    assert sim.info.notes == (f"up to {NEWEST}",)


@pytest.mark.parametrize("target", [SimTarget(), ZmqTarget()], ids=["sim", "zmq"])
def test_neither_fixes_a_release_or_refuses_what_its_capabilities_allow(target):
    scenario = load("steps:\n  - fence: true\n").scenario
    for release in RELEASES:
        profile = profile_for(release)
        assert target.profile(release) is None
        assert target.capabilities(profile) == target.info.capabilities
        assert target.unsupported(scenario, profile) is None
    assert not target.black_box


def test_only_the_simulation_is_decided_by_a_tape():
    assert (SimTarget.deterministic, ZmqTarget.deterministic) == (True, False)


def test_each_run_has_a_world_of_its_own():
    for target, cls in ((SimTarget(), SimWorld), (ZmqTarget(), ZmqWorld)):
        first, second = target.world(None), target.world(None)
        assert type(first) is type(second) is cls
        assert first is not second
        assert target.frontend() is make_client_frontend


def test_simulation_without_a_chooser_is_first_in_first_out():
    order = []

    async def main():
        loop = world._loop

        async def note(n):
            order.append(n)

        tasks = [loop.create_task(note(n)) for n in range(5)]
        for task in tasks:
            await task

    world = SimTarget().world(None)
    world.run(main)
    assert order == list(range(5))


@pytest.mark.zmq
@pytest.mark.parametrize(
    "story",
    [
        "steps:\n  - call: {id: a, rank: 1, kv_transfer_params: {x: [1, {y: null}]}, "
        "aux: ['00ff', 'aa']}\n  - finish: a\n  - expect: {op: a, outcome: finished, engine: 1}\n",
        "topology: {engines: 3, coordinator: in-process}\nsteps:\n  - load: {requests: 2}\n"
        "  - utility: {id: u, method: collective_rpc, args: [echo]}\n  - finish: u\n"
        "  - expect: {op: u, outcome: finished}\n",
        "steps:\n  - call: {id: a}\n  - finish: a\n  - expect: {op: a, outcome: failed}\n",
        "steps:\n  - expect: {in_flight: 0, when: '<0.30'}\n",
    ],
    ids=["call", "load", "violated", "not judged"],
)
def test_both_worlds_agree(tmp_path, story):
    """But for what only a virtual clock can show."""
    found = {}
    for kind in ("sim", "zmq"):
        result = run_scenario(load(story), RunOptions(target=kind, out=tmp_path))
        assert result.error is None
        found[kind] = (
            result.status,
            result.expectations,
            [(v.invariant, v.verdict) for v in result.verdicts if v.invariant not in IN_TIME],
        )
    assert found["sim"] == found["zmq"]


def test_every_declared_operation_is_one_that_a_scenario_can_ask_for():
    """A capability that no content implies could not be missed by any scenario."""
    asking = {
        "op.generate": "call: {id: a}",
        "op.rank": "call: {id: a, rank: 0}",
        "op.rank-text": "call: {id: a, rank_text: '0'}",
        "op.kv-transfer": "call: {id: a, kv_transfer_params: {}}",
        "op.aux": "call: {id: a, aux: ['00']}",
        "op.unencodable": "call: {id: a, unencodable: true}",
        "op.utility": "utility: {id: a, method: sleep}",
        "op.utility-raw": "utility: {id: a, method: sleep, via: raw}",
        "op.utility-timeout": "utility: {id: a, method: sleep, via: raw, timeout_s: 1}",
        "op.server-info": "expect: {server_info: {world_size: 1}}",
        "op.shutdown": "shutdown: {}",
        "op.connect-error": "expect: {connect: ok}",
        "op.scale": "scale: {id: a, to: 3}",
    }
    for capability, step in asking.items():
        topology = (
            'profiles: ">=0.33"\ntopology: {later: 1, coordinator: in-process}\n'
            if capability == "op.scale"
            else ""
        )
        story = f"{topology}steps:\n  - {step}\n"
        assert capability in needs(load(story).scenario), capability
    leaving = {"op.cancel": "cancel", "op.drop": "drop", "op.abort": "abort"}
    for capability, verb in leaving.items():
        story = f"steps:\n  - call: {{id: a}}\n  - {verb}: a\n"
        assert capability in needs(load(story).scenario), capability
    declared = {name for name in SimTarget().info.capabilities if name.startswith("op.")}
    assert declared == {*asking, *leaving}
