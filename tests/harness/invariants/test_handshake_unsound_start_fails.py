"""handshake.unsound-start-fails, on hand-written traces."""

import pytest

from harness.invariants.handshake_unsound_start_fails import UnsoundStartFails
from harness.trace.events import ConnectEnded
from tests.support.traces import END, held, judge, unexercised, violated

CLS = UnsoundStartFails
CONNECTED = ConnectEnded(None, "")
REFUSED = ConnectEnded("UnexpectedHandshakeMessage", "text")
BOOTSTRAPPED = {"engines": 2, "transport": "bootstrapped"}


def verdicts(join, **parts):
    """Of a startup that succeeds, and of one that fails."""
    engines = [{"engine": 1, "join": join}]
    return [judge(CLS, end, *END, engines=engines, **parts) for end in (CONNECTED, REFUSED)]


@pytest.mark.parametrize(
    ("join", "fault"),
    [
        ({"never": True}, "engine 1 never comes"),
        ({"skip": ["hello"]}, "engine 1 leaves out hello"),
        ({"skip": ["ready"]}, "engine 1 leaves out ready"),
        ({"skip": ["register"]}, "engine 1 leaves out register"),
        ({"register_times": 0}, "engine 1 leaves out register"),
        ({"hello_times": 2}, "engine 1 says HELLO 2 times"),
        ({"ready_without": ["max_model_len"]}, "lacks max_model_len"),
    ],
)
def test_connected_although_an_engine_is_unsound_is_violated(join, fault):
    connected, refused = verdicts(join)
    assert violated(connected, 0)
    assert fault in connected.message
    assert held(refused)


@pytest.mark.parametrize(
    ("join", "fault"),
    [
        ({"skip": ["register"]}, "engine 1 leaves out register"),
        ({"identity": "0900"}, "engine 1 registers as 0900"),
    ],
)
def test_bootstrapped_client_knows_who_has_to_register(join, fault):
    connected, refused = verdicts(join, topology=BOOTSTRAPPED)
    assert violated(connected, 0)
    assert fault in connected.message
    assert held(refused)


@pytest.mark.parametrize(
    "join",
    [
        {},
        {"gate": "late"},
        {"hello_times": 2, "hello_raw": ["00"]},
        {"identity": "0500"},
        {"skip": ["subscribe"]},
        {"register_times": 2},
        {"ready_without": ["kv_events_config"]},
        {"ready_without": ["max_model_len"], "ready": {"max_model_len": 5}},
        {"ready_without": ["max_model_len"], "ready_raw": "80"},
    ],
)
def test_what_may_succeed_is_not_judged(join):
    assert all(unexercised(verdict) for verdict in verdicts(join))


@pytest.mark.parametrize("join", [{"hello_times": 2}, {"identity": "0100"}, {"skip": ["hello"]}])
def test_bootstrapped_clients_hear_no_hello_and_know_their_own(join):
    assert all(unexercised(verdict) for verdict in verdicts(join, topology=BOOTSTRAPPED))


def test_a_key_counts_from_the_release_that_needs_it():
    without = {"ready_without": ["instance_id"]}
    assert unexercised(verdicts(without, release="0.26.0")[0])
    assert violated(verdicts(without, release="0.27.0")[0], 0)


def test_a_client_that_is_told_a_wrong_number_is_left_out():
    topology = {"engines": 2, "config": {"engine_count": 1}}
    assert all(unexercised(verdict) for verdict in verdicts({"never": True}, topology=topology))


def test_whoever_is_seen_from_outside_only_is_judged_too():
    assert violated(verdicts({"never": True}, black=True)[0], 0)


def test_every_fault_is_named():
    engines = [{"engine": 0, "join": {"hello_times": 2}}, {"engine": 1, "join": {"never": True}}]
    verdict = judge(CLS, CONNECTED, *END, engines=engines)
    assert "engine 0 says HELLO 2 times; engine 1 never comes" in verdict.message
