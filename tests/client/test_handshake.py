"""Startup: every stage, every refusal, on the pure state and over the wire."""

from __future__ import annotations

import pytest

from client import errors
from client.engine_client import EngineClient
from client.handshake import HandshakeState, OpenGate, SendInit, Stage
from client.protocol.codec import Codec
from client.protocol.messages import Hello, Ready, ReadyResponse
from client.protocol.profiles import profile_for
from client.protocol.transport import SocketKind

A, B, C = b"\x00\x00", b"\x01\x00", b"\x00\x01"


@pytest.fixture(name="codec")
def codec_fixture():
    return Codec(profile_for("0.33.0"))


def state_of(codec, *, count=2, coordinator=False, release="0.33.0", **more):
    profile = profile_for(release)
    return HandshakeState(codec, profile, engine_count=count, coordinator=coordinator, **more)


def hello(codec, identity):
    return [identity, codec.encode_hello(Hello())]


def ready(codec, identity):
    return [identity, codec.encode_ready(Ready())]


def values(codec, **changes):
    known = dict.fromkeys(codec.profile.ready_required, 1)
    known |= {"dtype": "float16", "vllm_version": "x", "instance_id": "i"}
    known |= {"supports_lora": False, "max_loras": 0}
    return codec.encode_ready_response(ReadyResponse({**known, **changes}))


def test_stages_without_coordinator_let_readies_overlap(codec):
    state = state_of(codec)
    assert state.on_handshake(hello(codec, C)) == [SendInit(C)]
    assert state.on_handshake(ready(codec, C)) == []
    assert state.stage is Stage.HELLO
    assert state.on_handshake(hello(codec, B)) == [SendInit(B)]
    assert state.stage is Stage.READY
    state.on_handshake(ready(codec, B))
    assert state.stage is Stage.REGISTRATION
    state.on_registration([B, values(codec)])
    state.on_registration([C, values(codec)])
    assert state.stage is Stage.DONE
    assert [engine.identity for engine in state.engines()] == [C, B]


def test_gate_counts_messages_not_engines(codec):
    state = state_of(codec, coordinator=True)
    for identity in (A, B):
        state.on_handshake(hello(codec, identity))
    assert state.stage is Stage.SUBSCRIPTIONS
    assert state.on_subscription([b"\x01"]) == []
    assert state.on_subscription([b"\x00"]) == []
    assert state.on_subscription([b"\x01"]) == [OpenGate()]
    assert state.stage is Stage.READY


@pytest.mark.parametrize(
    ("messages", "fragment"),
    [
        ([lambda c: [A]], "expected 2 handshake frames, got 1"),
        ([lambda c: hello(c, A), lambda c: hello(c, A)], "duplicate engine id"),
        ([lambda c: hello(c, A), lambda c: hello(c, B), lambda c: hello(c, A)],
         "duplicate HELLO .* after INIT phase"),
        ([lambda c: hello(c, A), lambda c: hello(c, B), lambda c: hello(c, C)],
         "duplicate HELLO .* after INIT phase"),
        ([lambda c: ready(c, A)], "unexpected or duplicate engine id"),
        ([lambda c: hello(c, A), lambda c: ready(c, A), lambda c: ready(c, A)],
         "unexpected or duplicate engine id"),
        ([lambda c: hello(c, b"abc")], "two-byte engine id"),
        ([lambda c: [A, b"\x81\xa6status\xa3BYE"]], "unexpected handshake status"),
        ([lambda c: [A, b"\x80"]], "unexpected handshake status"),
    ],
)  # fmt: skip
def test_handshake_message_out_of_place_is_refused(codec, messages, fragment):
    state = state_of(codec)
    for message in messages[:-1]:
        state.on_handshake(message(codec))
    before = state.stage
    with pytest.raises(errors.UnexpectedHandshakeMessage, match=fragment):
        state.on_handshake(messages[-1](codec))
    assert state.stage is before


def test_ready_before_the_gate_is_refused_with_a_coordinator(codec):
    state = state_of(codec, coordinator=True)
    state.on_handshake(hello(codec, A))
    with pytest.raises(errors.UnexpectedHandshakeMessage, match="before coordinator startup gate"):
        state.on_handshake(ready(codec, A))


def test_undecodable_handshake_body_is_a_decode_error(codec):
    with pytest.raises(errors.Decode, match="ReadyMessage"):
        state_of(codec).on_handshake([A, b"\xc1"])


@pytest.mark.parametrize("frames", [[], [b"\x01x"], [b"\x01", b""], [b"\x02"]])
def test_subscription_of_another_shape_is_refused(codec, frames):
    with pytest.raises(
        errors.UnexpectedHandshakeMessage, match="expected coordinator subscription"
    ):
        state_of(codec, coordinator=True).on_subscription(frames)


@pytest.mark.parametrize(
    ("registrations", "error", "fragment"),
    [
        ([[A]], errors.UnexpectedHandshakeMessage, "expected 2 input registration frames"),
        ([[C, None]], errors.UnexpectedHandshakeMessage, "unexpected engine id"),
        ([[A, None], [A, None]], errors.UnexpectedHandshakeMessage, "unexpected engine id"),
        ([[A, b""]], errors.UnexpectedHandshakeMessage, "got empty payload"),
        ([[A, b"\xc1"]], errors.Decode, "EngineCoreReadyResponse"),
        ([[A, b"\x80"]], errors.Decode, "EngineCoreReadyResponse"),
        ([[A, {"supports_lora": True}]], errors.UnexpectedHandshakeMessage, "supports_lora is True"),
        ([[A, None], [B, {"supports_lora": True, "max_loras": 2}]],
         errors.UnexpectedHandshakeMessage, "engines differ in LoRA"),
    ],
)  # fmt: skip
def test_registration_out_of_place_is_refused(codec, registrations, error, fragment):
    state = state_of(codec, expected=[A, B])
    filled = []
    for frames in registrations:
        body = frames[1] if len(frames) > 1 else None
        if isinstance(body, dict):
            filled.append([frames[0], values(codec, **body)])
        elif body is None and len(frames) > 1:
            filled.append([frames[0], values(codec)])
        else:
            filled.append(frames)
    for frames in filled[:-1]:
        state.on_registration(frames)
    with pytest.raises(error, match=fragment):
        state.on_registration(filled[-1])
    assert state.stage is Stage.REGISTRATION


def test_empty_registration_is_accepted_up_to_0_22_1():
    codec = Codec(profile_for("0.22.1"))
    state = state_of(codec, release="0.22.1", expected=[B, A])
    state.on_registration([A, b""])
    state.on_registration([B, b""])
    assert [engine.identity for engine in state.engines()] == [B, A]


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        (Stage.HELLO, "timed out while waiting for HELLO after 2s"),
        (Stage.SUBSCRIPTIONS,
         "timed out while waiting for coordinator engine subscriptions after 2s"),
        (Stage.READY, "timed out while waiting for READY after 2s"),
        (Stage.REGISTRATION, "input registration timed out after 2s"),
    ],
)  # fmt: skip
def test_timeout_names_its_stage(codec, stage, text):
    state = state_of(codec)
    state.stage = stage
    assert str(state.timeout_error(2.0)) == text


@pytest.mark.parametrize("coordinator", ["none", "in-process"])
def test_handshake_owner_connects_engines_of_any_ranks(make_world, coordinator):
    async def story(world):
        client = await world.connect()
        assert client.engine_indices() == (512, 3)
        await client.shutdown()

    make_world(ranks=(3, 512), owner=True, coordinator=coordinator).run(story)


@pytest.mark.parametrize(
    ("missing", "error"),
    [("hello", "waiting for HELLO"), ("subscription", "subscriptions"), ("ready", "READY")],
)
def test_engine_that_stops_half_way_times_out_at_its_stage(make_world, missing, error):
    async def story(world):
        late = world.engines[1]
        if missing == "hello":
            late.join = late.connect
        else:
            # Subscribed once, the gate stays shut; never opened for it, READY never comes.
            world.engines[1].connect = _without(late, missing, world)
        with pytest.raises(errors.HandshakeTimeout, match=error):
            await world.connect()

    make_world(coordinator="in-process", client={"ready_timeout_s": 3.0}).run(story)


def _without(engine, missing, world):
    connect = engine.connect

    async def limited():
        await connect()
        if missing == "subscription":
            await world.gate("never")
        engine.shake.close()

    return limited


# --- where each rule begins and ends ---------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3])
def test_startup_message_of_other_than_two_frames_says_how_many_came(codec, count):
    frames = [A, codec.encode_hello(Hello()), b""][:count]
    text = f"unexpected startup handshake message: expected 2 handshake frames, got {count}"
    with pytest.raises(errors.UnexpectedHandshakeMessage) as caught:
        state_of(codec).on_handshake(frames)
    assert str(caught.value) == text
    frames = [A, values(codec), b""][:count]
    text = f"expected 2 input registration frames, got {count}"
    with pytest.raises(errors.UnexpectedHandshakeMessage, match=text):
        state_of(codec, expected=[A]).on_registration(frames)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_gate_opens_at_as_many_subscriptions_as_engines(codec, count):
    state = state_of(codec, count=count, coordinator=True)
    for identity in (A, B, C)[:count]:
        assert state.stage is Stage.HELLO
        state.on_handshake(hello(codec, identity))
    for _ in range(count - 1):
        assert state.on_subscription([b"\x01"]) == []
        assert state.stage is Stage.SUBSCRIPTIONS
    assert state.on_subscription([b"\x01"]) == [OpenGate()]
    assert state.stage is Stage.READY
    for identity in (A, B, C)[:count]:
        assert state.stage is Stage.READY
        state.on_handshake(ready(codec, identity))
    assert state.stage is Stage.REGISTRATION


def test_engine_that_is_ready_before_the_last_hello_ends_the_stage_with_that_hello(codec):
    state = state_of(codec, count=1)
    state.on_handshake(hello(codec, A))
    assert state.stage is Stage.READY
    late = state_of(codec, count=2)
    late.on_handshake(hello(codec, A))
    late.on_handshake(ready(codec, A))
    late.on_handshake(hello(codec, B))
    assert late.stage is Stage.READY
    late.on_handshake(ready(codec, B))
    assert late.stage is Stage.REGISTRATION


@pytest.mark.parametrize("release", ["0.22.0", "0.33.0"])
@pytest.mark.parametrize("identity", [b"", b"\x01", b"\x01\x00", b"\x01\x00\x00"])
def test_hello_of_an_identity_that_is_no_rank_is_refused_where_the_release_asks(release, identity):
    codec, profile = Codec(profile_for(release)), profile_for(release)
    state = state_of(codec, release=release)
    if len(identity) == 2 or not profile.two_byte_identity_required:
        assert state.on_handshake(hello(codec, identity)) == [SendInit(identity)]
    else:
        with pytest.raises(errors.UnexpectedHandshakeMessage, match=f"0x{identity.hex()}"):
            state.on_handshake(hello(codec, identity))


@pytest.mark.parametrize(
    ("supports", "most", "sound"),
    [
        (False, 0, True), (True, 1, True), (True, 2, True), (True, 0, False), (False, 1, False),
    ],
)  # fmt: skip
def test_support_for_lora_and_its_number_agree(codec, supports, most, sound):
    state = state_of(codec, expected=[A])
    body = values(codec, supports_lora=supports, max_loras=most)
    if sound:
        assert state.on_registration([A, body]) == []
        assert state.stage is Stage.DONE
        return
    with pytest.raises(
        errors.UnexpectedHandshakeMessage,
        match=f"supports_lora is {supports} but max_loras is {most}",
    ):
        state.on_registration([A, body])
    assert state.stage is Stage.REGISTRATION


def test_engines_have_one_number_of_loras(codec):
    state = state_of(codec, expected=[A, B, C])
    two = values(codec, supports_lora=True, max_loras=2)
    state.on_registration([A, two])
    state.on_registration([B, two])
    with pytest.raises(errors.UnexpectedHandshakeMessage, match=r"engines differ in LoRA support"):
        state.on_registration([C, values(codec, supports_lora=True, max_loras=3)])
    state.on_registration([C, two])
    assert state.stage is Stage.DONE


def test_lora_is_not_looked_at_before_0_29():
    codec = Codec(profile_for("0.28.0"))
    state = state_of(codec, release="0.28.0", expected=[A])
    state.on_registration([A, values(codec, supports_lora=True, max_loras=0)])
    assert state.stage is Stage.DONE


def test_deployment_of_hundreds_of_engines_starts_at_the_last_one(codec):
    engines = [rank.to_bytes(2, "little") for rank in range(300)]
    state = state_of(codec, count=300, coordinator=True)
    for identity in engines:
        assert state.stage is Stage.HELLO
        state.on_handshake(hello(codec, identity))
    opened = [state.on_subscription([b"\x01"]) for _ in engines]
    assert opened == [[]] * 299 + [[OpenGate()]]
    for identity in engines:
        assert state.stage is Stage.READY
        state.on_handshake(ready(codec, identity))
    for identity in engines:
        assert state.stage is Stage.REGISTRATION
        state.on_registration([identity, values(codec)])
    assert state.stage is Stage.DONE
    assert [each.identity for each in state.engines()] == sorted(engines)


@pytest.mark.parametrize("owner", [False, True])
def test_address_that_is_taken_is_a_transport_error_and_leaves_nothing_open(make_world, owner):
    async def story(world):
        taken = await world.plain.bind(SocketKind.PULL, world.output)
        for _ in range(2):  # what the first attempt had opened is closed
            with pytest.raises(errors.Transport) as caught:
                await EngineClient.connect(world.config(), world.plain)
            assert world.output in str(caught.value)
        taken.close()
        client = await world.connect()
        await client.shutdown()

    make_world(owner=owner).run(story)
