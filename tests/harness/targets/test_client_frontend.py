"""The reference client as a frontend: configuration, operations, fences, and its end."""

from __future__ import annotations

import pytest

from client.components import Components
from client.config import Bootstrapped, ClientConfig, HandshakeOwner, InProcessCoordinator
from client.errors import EngineCoreDead, UtilityCallTimeout
from client.errors import Transport as TransportFailed
from client.events import CoordinatorStateApplied, FirstRequestQueued
from client.protocol.ids import FENCE_METHOD
from client.protocol.profiles import profile_for
from harness.play import build
from harness.scenario.model import CallStep, Topology
from harness.targets.base import TargetError
from harness.targets.client_frontend import (
    DEFAULT_READY_TIMEOUT_S,
    FENCE_ATTEMPT_S,
    RESULT_TYPES,
    UNENCODABLE,
    ClientFrontend,
)
from harness.trace.events import CallEnded, ClientReleased
from harness.trace.recorder import Recorder
from mock_engines.cluster import JoinAddresses
from mock_engines.events import AddSeen, UtilitySeen
from tests.support.stories import kinds, of, outcomes, perform, sim, spec_of, unchecked

PROFILE = profile_for("0.33.0")


def frontend_of(carrier=None, *, emit=lambda _event: None, **topology):
    async def no_gate(_name):
        raise NotImplementedError

    return ClientFrontend(
        topology=Topology(**topology),
        profile=PROFILE,
        transport=sim().transport if carrier is None else carrier,
        components=Components(),
        observer=emit,
        emit=emit,
        wait_gate=no_gate,
    )


# --- configuration --------------------------------------------------------------------------


def test_handshake_owner_is_configured_from_the_topology():
    frontend = frontend_of(engines=3, coordinator="in-process")
    addresses = frontend.addresses
    assert addresses == JoinAddresses(
        handshake="sim://handshake", input="sim://input", output="sim://output",
        coordinator_input="sim://coordinator-input", coordinator_output="sim://coordinator-output",
    )  # fmt: skip
    assert frontend._config() == ClientConfig(
        profile=PROFILE,
        mode=HandshakeOwner(
            handshake_address="sim://handshake",
            input_address="sim://input",
            output_address="sim://output",
            engine_count=3,
            data_parallel_size=3,
            coordinator=InProcessCoordinator("sim://coordinator-input", "sim://coordinator-output"),
        ),
        ready_timeout_s=DEFAULT_READY_TIMEOUT_S,
        utility_timeout_s=None,
    )


def test_bootstrapped_client_is_configured_from_the_topology():
    frontend = frontend_of(engines=2, start_rank=5, transport="bootstrapped")
    assert frontend.addresses.handshake is None
    assert frontend.addresses.coordinator_input is None
    assert frontend._config().mode == Bootstrapped(
        input_address="sim://input",
        output_address="sim://output",
        engine_start_index=5,
        engine_count=2,
        data_parallel_size=7,
        coordinator_address=None,
    )


@pytest.mark.parametrize(
    ("topology", "found"),
    [
        ({"data_parallel_size": 4}, (2, 0, 4)),
        ({"data_parallel_size": 4, "config": {"data_parallel_size": 9}}, (2, 0, 9)),
        ({"config": {"engine_count": 0}}, (0, 0, 0)),
        ({"config": {"engine_count": 3, "data_parallel_size": 2}}, (3, 0, 2)),
        (
            {"transport": "bootstrapped", "start_rank": 2, "config": {"engine_start_index": 0}},
            (2, 0, 2),
        ),
        ({"transport": "bootstrapped", "ranks": [4, 5], "data_parallel_size": 8}, (2, 4, 8)),
    ],
)
def test_configuration_may_differ_from_the_topology(topology, found):
    mode = frontend_of(**topology)._config().mode
    start = mode.engine_start_index if isinstance(mode, Bootstrapped) else 0
    assert (mode.engine_count, start, mode.data_parallel_size) == found


def test_timeouts_come_from_the_file():
    config = frontend_of(config={"ready_timeout_s": 1.5, "utility_timeout_s": 2.5})._config()
    assert (config.ready_timeout_s, config.utility_timeout_s) == (1.5, 2.5)


def test_external_coordinator_is_up_before_the_engines_join():
    world = sim()

    async def main():
        frontend = frontend_of(
            world.transport, coordinator="external", transport="bootstrapped", engines=2
        )
        assert frontend.coordinator is None
        await frontend.prepare()
        process = frontend.coordinator
        assert process.running
        assert frontend.addresses.coordinator_input == process.back_input_address
        assert frontend.addresses.coordinator_output == process.back_output_address
        assert frontend._config().mode.coordinator_address == process.front_address
        await frontend.stop()
        return process.running, world.transport.open_sockets

    assert world.run(main) == (False, 0)


def test_preparing_without_an_external_coordinator_opens_nothing():
    world = sim()

    async def main():
        frontend = frontend_of(world.transport)
        await frontend.prepare()
        return frontend.coordinator, world.transport.open_sockets

    assert world.run(main) == (None, 0)


# --- before and after its life --------------------------------------------------------------


def test_client_that_is_not_connected_cannot_be_used():
    frontend = frontend_of()
    with pytest.raises(TargetError, match=r"^the client is not connected$"):
        _ = frontend.client
    assert sim()._loop.run(frontend.snapshot("x")) is None


def test_stopping_and_fencing_without_a_client_do_nothing():
    emitted = []

    async def main():
        frontend = frontend_of(emit=emitted.append)
        await frontend.fence((0, 1))
        await frontend.stop()
        await frontend.stop()
        await frontend.shutdown(0)

    sim()._loop.run(main())
    assert emitted == []


def test_stopping_lets_go_of_the_client_and_says_whether_that_was_the_last_reference():
    def run(keep):
        world, kept = sim(), []
        emitted = []

        async def main():
            trace = Recorder()
            trace.subscribe(lambda record: emitted.append(record.event))
            driver = await build(spec_of("steps:\n  - fence: true\n"), world, trace)
            try:
                await driver.play()
                if keep:
                    kept.append(driver._frontend.client)
            finally:
                await driver.close()

        world.run(main)
        return [event for event in emitted if isinstance(event, ClientReleased)]

    assert run(keep=False) == [ClientReleased(alive=False)]
    assert run(keep=True) == [ClientReleased(alive=True)]


def test_coordinator_is_stopped_although_the_clients_end_fails():
    world = sim()

    class Broken:
        async def shutdown(self):
            msg = "cannot"
            raise RuntimeError(msg)

    async def main():
        frontend = frontend_of(world.transport, coordinator="external", transport="bootstrapped")
        await frontend.prepare()
        frontend._client = Broken()
        with pytest.raises(RuntimeError, match="cannot"):
            await frontend.stop()
        return frontend.coordinator.running

    assert world.run(main) is False


# --- calls ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("request_id", "external"), [(None, "a"), ("other", "other")])
def test_request_carries_the_callers_id_without_a_prefix(request_id, external):
    frontend = frontend_of()
    step = CallStep(id="a", request_id=request_id, prompt=[1, 2], max_tokens=9, rank=3)
    request = frontend._request(step)
    assert frontend.external_id(step) == request.request_id == request.external_req_id == external
    assert request.prompt_token_ids == (1, 2)
    assert request.sampling_params == {"max_tokens": 9}
    assert request.data_parallel_rank == 3


def test_request_carries_kv_transfer_params_and_what_cannot_be_encoded():
    frontend = frontend_of()
    kv = frontend._request(CallStep(id="a", kv_transfer_params={"x": 1})).sampling_params
    assert kv["extra_args"] == {"kv_transfer_params": {"x": 1}}
    bad = frontend._request(CallStep(id="a", unencodable=True)).sampling_params
    assert bad["extra_args"] == {"broken": UNENCODABLE}


@pytest.mark.parametrize(
    ("surface", "text", "rank"),
    [
        ("grpc", ["1"], 1), ("grpc-stream", [" 1 "], 1), ("auto", ["1", "0"], 1), ("auto", [], None),
        ("http", ["1"], 1), ("http-stream", ["one"], None), ("http", [], None),
    ],
)  # fmt: skip
def test_rank_text_is_read_by_the_rule_of_its_surface(surface, text, rank):
    request = frontend_of()._request(CallStep(id="a", surface=surface, rank_text=text))
    assert request.data_parallel_rank == rank


def test_rank_text_that_grpc_refuses_fails_the_call():
    played = perform("steps:\n  - call: {id: a, surface: grpc, rank_text: one}\n  - finish: a\n")
    (ended,) = of(played, CallEnded)
    assert (ended.error, ended.outcome) == ("InvalidRankMetadata", "failed")
    assert of(played, AddSeen) == []


def test_finished_call_has_its_reason_and_kv_transfer_params():
    played = perform("""
engines:
  - rules:
      - {on: add, do: {stream: {tokens: 2, finish: stop, kv_transfer_params: {block: 7}}}}
steps:
  - call: {id: a}
  - finish: a
""")
    op = played.story.ops["a"]
    assert (op.outcome, op.finish, op.kv_transfer_params) == ("finished", "stop", {"block": 7})


def test_aux_frames_travel_as_bytes():
    played = perform("steps:\n  - call: {id: a, aux: ['00ff', '']}\n  - finish: a\n")
    assert [add.aux_bytes for add in of(played, AddSeen)] == [(2, 0)]


# --- utilities ------------------------------------------------------------------------------


def utility(via="method", **fields):
    step = {"id": "u", "via": via, **fields}
    played = perform(unchecked(steps=[{"utility": step}, {"finish": "u"}]))
    return played.story.ops["u"], of(played, UtilitySeen)


def test_raw_call_asks_for_the_type_of_the_step():
    op, seen = utility("raw", method="is_sleeping", result="bool")
    assert (op.value, [s.engine for s in seen]) == ([False, False], [0, 1])
    wrong, _ = utility("raw", method="is_sleeping", result="str")
    assert wrong.error == "UtilityResultDecode"


def test_timeout_of_the_step_reaches_the_call():
    hang = [{"rules": [{"on": "utility", "do": [{"hang": "g"}]}]}]
    for via in ("raw", "consensus"):
        step = {"id": "u", "method": "sleep", "via": via, "timeout_s": 0.25}
        played = perform(
            unchecked(engines=hang, steps=[{"utility": step}, {"finish": "u"}, {"fence": True}])
        )
        assert played.story.ops["u"].error == "UtilityCallTimeout"
        ended = next(r for r in played.records if kinds([r]) == ["utility-ended"])
        assert ended.time_us == 250_000


def test_every_result_type_of_the_model_is_known():
    from typing import get_args

    from harness.scenario.model import UtilityStep

    assert set(get_args(UtilityStep.model_fields["result"].annotation)) == set(RESULT_TYPES)


# --- fences ---------------------------------------------------------------------------------


class FakeClient:
    """A client whose round trips end as a test says."""

    def __init__(self, *script, fatal=EngineCoreDead):
        self.script = list(script)
        self.fatal = fatal
        self.log = []
        self.health_error = None

    async def drained(self):
        self.log.append("drained")

    async def call_utility(self, method, args, result_type, *, timeout_s, only):
        assert (method, args, timeout_s) == (FENCE_METHOD, (), FENCE_ATTEMPT_S)
        self.log.append(only)
        step = self.script.pop(0) if self.script else None
        if isinstance(step, BaseException):
            if isinstance(step, self.fatal):
                self.health_error = step
            raise step


def fenced(client, *ranks):
    frontend = frontend_of()
    frontend._client = client
    loop = sim()._loop
    loop.run(frontend.fence(ranks))
    return client.log, loop.time()


def test_fence_drains_aborts_and_reaches_each_engine_in_turn():
    assert fenced(FakeClient(), 1, 0) == (["drained", (1,), (0,)], 0.0)


def test_fence_tries_again_what_was_lost_or_refused_after_a_reconnect():
    lost = UtilityCallTimeout(FENCE_METHOD, FENCE_ATTEMPT_S, (), (0,))
    client = FakeClient(lost, TransportFailed("gone"), TransportFailed("gone"))
    log, seconds = fenced(client, 0, 1)
    assert log == ["drained", (0,), (0,), (0,), (0,), (1,)]
    assert seconds == pytest.approx(0.02)


def test_fence_ends_when_the_client_fails_on_the_way():
    log, _ = fenced(FakeClient(None, EngineCoreDead()), 0, 1, 2)
    assert log == ["drained", (0,), (1,)]


def test_fence_ends_when_the_client_fails_with_a_transport_error():
    log, _ = fenced(FakeClient(None, TransportFailed("publisher"), fatal=TransportFailed), 0, 1, 2)
    assert log == ["drained", (0,), (1,)]


def test_fence_of_a_failed_client_asks_nobody():
    client = FakeClient()
    client.health_error = EngineCoreDead()
    assert fenced(client, 0, 1) == ([], 0.0)


def test_fence_passes_an_error_on_that_is_not_the_clients_end():
    from client.errors import UtilityCallFailed

    client = FakeClient(UtilityCallFailed.__new__(UtilityCallFailed))
    with pytest.raises(UtilityCallFailed):
        fenced(client, 0)


# --- health, registries, shutdown -----------------------------------------------------------


def test_health_snapshot_and_server_info_are_those_of_the_client():
    world = sim()
    spec = spec_of(
        "topology: {engines: 2, coordinator: in-process, waves: script}\n"
        "engines:\n  - rules: [{on: add, do: {hang: g}}]\nopen_at_end: [g, a]\n"
        "steps:\n  - call: {id: a, rank: 1}\n  - wait: {event: add}\n",
        release="0.32.0",
    )

    async def main():
        driver = await build(spec, world, Recorder())
        frontend = driver._frontend
        try:
            await driver.play()
            before = await frontend.health()
            shot = await frontend.snapshot("now")
            info = await frontend.server_info()
            await frontend.shutdown(0)
            return before, shot, info, await frontend.health()
        finally:
            await driver.close()

    before, shot, info, after = world.run(main)
    assert (before.healthy, before.error, before.message) == (True, None, "")
    assert (shot.label, shot.in_flight, shot.pending_utility) == ("now", ("a",), ())
    assert (shot.loads, shot.wave, shot.running) == (((0, 0), (1, 1)), 0, True)
    assert info["data_parallel_size"] == 2
    assert (after.healthy, after.error) == (False, "ClientClosed")
    assert after.message


@pytest.mark.parametrize(
    ("timeout_s", "outcome", "ended_us"), [(0.5, "finished", 100_000), (0.05, "failed", 50_000)]
)
def test_shutdown_waits_for_open_calls_within_its_drain_time(timeout_s, outcome, ended_us):
    played = perform(f"""
engines:
  - rules: [{{on: add, do: [{{delay_ms: 100}}, {{default: true}}]}}]
steps:
  - call: {{id: a}}
  - wait: {{event: add}}
  - shutdown: {{timeout_s: {timeout_s}}}
  - finish: a
""")
    assert outcomes(played) == {"a": outcome}
    closed = next(r for r in played.records if kinds([r]) == ["closed"])
    assert closed.time_us == ended_us


def test_observer_of_the_coordinator_is_that_of_the_client():
    played = perform(
        "topology: {coordinator: external, transport: bootstrapped, waves: script}\n"
        "steps:\n  - call: {id: a}\n  - wait: {event: state-applied}\n",
        release="0.32.0",
    )
    assert of(played, FirstRequestQueued)
    assert of(played, CoordinatorStateApplied)
    assert "first-request" in kinds(played.records)
