"""Every way to join, seen from the frontend's sockets."""

import pytest

from client.protocol.codec import Codec
from client.protocol.messages import Hello, Init, Ready
from client.protocol.profiles import RELEASES, profile_for
from mock_engines import events
from mock_engines.cluster import JoinAddresses

CODEC = Codec(profile_for("0.33.0"))


def join(**options):
    return [{"engine": "all", "join": options}]


async def nothing(run):
    pass


def said(run):
    """What arrived on the handshake socket, decoded: HELLO and READY."""
    return [CODEC.decode_hello_or_ready(body) for _, body in run.peer.startup]


def test_handshake_peer_says_hello_registers_and_is_ready(play):
    run = play(nothing, handshake=True)
    assert said(run) == [Hello(), Ready()]
    (registration,) = run.peer.registrations
    assert registration[0] == b"\x00\x00"
    assert CODEC.decode_ready_response(registration[1]).get("data_parallel_rank") == 0
    assert run.events == [events.EngineJoined(0, b"\x00\x00", False)]


def test_gate_comes_before_ready_when_there_is_a_coordinator(play):
    async def story(run):
        assert said(run) == [Hello()] * 2
        assert run.peer.subscriptions == [[b"\x01"]] * 2
        await run.peer.open_gate()
        await run.cluster.joined()
        await run.settle()
        assert said(run)[2:] == [Ready()] * 2

    async def later(run):
        await run.settle()
        await story(run)

    run = play(later, handshake=True, coordinator=True, ranks=(0, 1), join=False)
    joined = run.seen(events.EngineJoined)
    assert [event.coordinator for event in joined] == [True, True]
    assert len(run.seen(events.GateOpened)) == 2


def test_bootstrapped_engine_only_registers(play):
    run = play(nothing, ranks=(256,))
    assert run.peer.startup == []
    assert [identity for identity, _ in run.peer.registrations] == [b"\x00\x01"]


@pytest.mark.parametrize("release", RELEASES)
def test_ready_response_satisfies_the_strict_decoder_of_its_release(play, release):
    run = play(nothing, release=release)
    profile = profile_for(release)
    response = Codec(profile).decode_ready_response(run.peer.registrations[0][1])
    assert tuple(response.values) == profile.ready_keys


@pytest.mark.parametrize(("coordinator", "size"), [(True, 2), (False, 1)])
def test_dense_engine_reports_a_size_of_one(play, coordinator, size):
    run = play(nothing, ranks=(0, 1), coordinator=coordinator)
    response = CODEC.decode_ready_response(run.peer.registrations[0][1])
    assert response.get("data_parallel_size") == size


def test_engine_that_never_joins_is_not_waited_for(play):
    specs = [{"engine": 1, "join": {"never": True}}]
    run = play(nothing, ranks=(0, 1), specs=specs)
    assert [event.engine for event in run.seen(events.EngineJoined)] == [0]
    assert [identity for identity, _ in run.peer.registrations] == [b"\x00\x00"]


def test_engine_joins_when_its_gate_opens(play):
    async def story(run):
        await run.settle()
        assert run.events == []
        run.gates.open("late")
        await run.cluster.joined()

    run = play(story, specs=join(gate="late"), join=False)
    assert len(run.seen(events.EngineJoined)) == 1


def test_messages_are_sent_as_often_as_told(play):
    async def story(run):
        await run.settle()
        assert said(run) == [Hello()] * 3
        assert len(run.peer.registrations) == 2
        assert len(run.peer.subscriptions) == 2

    options = {"hello_times": 3, "register_times": 2, "subscribe_times": 2}
    play(story, specs=join(**options), handshake=True, coordinator=True, join=False)


@pytest.mark.parametrize(
    ("skip", "hellos", "subscriptions", "registrations"),
    [("subscribe", 1, 0, 1), ("register", 1, 1, 0)],
)
def test_skipped_message_is_left_out(play, skip, hellos, subscriptions, registrations):
    async def story(run):
        await run.settle()
        counts = (len(said(run)), len(run.peer.subscriptions), len(run.peer.registrations))
        assert counts == (hellos, subscriptions, registrations)

    play(story, specs=join(skip=[skip]), handshake=True, coordinator=True, join=False)


def test_skipped_ready_still_joins_from_the_engine_s_view(play):
    run = play(nothing, specs=join(skip=["ready"]), handshake=True)
    assert said(run) == [Hello()]
    assert len(run.seen(events.EngineJoined)) == 1


@pytest.mark.parametrize("options", [{"skip": ["hello"]}, {"hello_times": 0}])
def test_skipped_hello_leaves_a_ready_out_of_the_blue(play, options):
    run = play(nothing, specs=join(**options), handshake=True)
    assert said(run) == [Ready()]
    assert run.peer.registrations == []


def test_ready_before_the_gate_does_not_wait(play):
    async def story(run):
        await run.settle()
        assert said(run) == [Hello(), Ready()]
        assert run.seen(events.EngineJoined) == []
        await run.peer.open_gate()
        await run.cluster.joined()
        await run.settle()
        assert said(run) == [Hello(), Ready()]

    play(story, specs=join(ready_before_gate=True), handshake=True, coordinator=True, join=False)


def test_other_identity_is_announced_on_every_socket(play):
    async def story(run):
        await run.settle()
        assert {identity for identity, _ in run.peer.startup} == {b"\x01\x02\x03"}

    run = play(story, specs=join(identity="010203"), handshake=True)
    assert [identity for identity, _ in run.peer.registrations] == [b"\x01\x02\x03"]
    assert run.seen(events.EngineJoined)[0].identity == b"\x01\x02\x03"


def test_ready_response_is_changed_as_told(play):
    options = {"ready": {"max_model_len": 7, "extra": [1]}, "ready_without": ["dtype"]}
    run = play(nothing, specs=join(**options), release="0.22.0")
    response = Codec(profile_for("0.22.0")).decode_ready_response(run.peer.registrations[0][1])
    assert (response.get("max_model_len"), response.get("extra")) == (7, [1])
    assert "dtype" not in response.values


@pytest.mark.parametrize("body", ["", "c1ff"])
def test_raw_registration_is_sent_as_it_is(play, body):
    run = play(nothing, specs=join(ready_raw=body))
    assert run.peer.registrations == [[b"\x00\x00", bytes.fromhex(body)]]


def test_raw_hello_and_subscription_are_sent_as_they_are(play):
    async def story(run):
        await run.settle()
        assert run.peer.startup == [[b"\x00\x00", b"\xc1"]]

    play(story, specs=join(hello_raw=["c1"]), handshake=True, join=False)

    async def subscribed(run):
        await run.settle()
        assert run.peer.subscriptions == [[b"\x01", b"hi"]] or run.peer.subscriptions == [[b"hi"]]

    options = join(subscribe_raw=["text:hi"])
    play(subscribed, specs=options, coordinator=True, join=False)


def test_stray_message_before_the_gate_is_reported_and_does_not_open_it(play):
    async def story(run):
        await run.settle()
        await run.peer.sockets["coordinator_input"].send([b"\x02", b"\x92\x00\xc0"])
        await run.settle()
        assert "waiting for READY of the coordinator" in run.seen(events.UnknownSeen)[0].detail
        assert run.seen(events.EngineJoined) == []

    play(story, coordinator=True, join=False)


def test_late_ready_of_the_coordinator_is_shown_and_changes_nothing(play):
    async def story(run):
        await run.peer.open_gate()
        await run.settle()

    run = play(story, coordinator=True)
    assert run.seen(events.UnknownSeen) == []
    assert len(run.seen(events.GateOpened)) == 2
    assert len(run.seen(events.EngineJoined)) == 1


@pytest.mark.parametrize(
    ("addresses", "text"),
    [
        (JoinAddresses(), "handshake address, or an input and an output"),
        (JoinAddresses(input="a"), "handshake address, or an input and an output"),
        (JoinAddresses(handshake="a", coordinator_input="b"), "together or not at all"),
        (JoinAddresses(handshake="a", further=[("b", "c")]), "output address of the first"),
    ],
)
def test_addresses_with_which_nobody_could_join_are_refused(addresses, text):
    with pytest.raises(ValueError, match=text):
        addresses.check()


def test_stray_message_before_the_addresses_is_reported_and_passed_over(play):
    async def story(run):
        await run.settle()
        assert run.seen(events.EngineJoined) == []
        identity = run.peer.startup[0][0]
        init = run.peer.codec.encode_init(
            Init(inputs=(run.peer.address("input"),), outputs=(run.peer.address("output"),))
        )
        await run.peer.sockets["handshake"].send([identity, b"one", b"two"])
        await run.settle()
        assert "INIT" in run.seen(events.UnknownSeen)[0].detail
        assert run.seen(events.EngineJoined) == []
        await run.peer.sockets["handshake"].send([identity, init])
        await run.settle()
        assert len(run.seen(events.EngineJoined)) == 1

    play(story, handshake="by hand", join=False)
