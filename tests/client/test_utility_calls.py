"""Utility calls over the wire of a simulated run."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from client import errors
from client.aio import pause, turn
from client.events import (
    UtilityRegistered,
    UtilityReleased,
    UtilityReplyDropped,
    UtilitySettled,
)
from client.utility import NIL
from harness.faults import LinkFault


def settled(world):
    return [(each.call_id, each.engine, each.error) for each in world.told(UtilitySettled)]


async def answered(world, call, *answers):
    """Let each engine answer in the order given: (rank position, value or error text)."""
    await world.settled()
    for position, value, failure in answers:
        engine = world.engines[position]
        await engine.reply(engine.utilities()[-1].call_id, value, failure)
        await world.settled()
    return call


def test_call_ids_count_from_one_in_engine_order(make_world):
    async def story(world):
        client = await world.connect()
        for expected in ([1, 2], [3, 4]):
            call = world.spawn(client.call_utility("ping", (1, "x"), int))
            await world.settled()
            assert list(client.pending_utility_calls()) == expected
            sent = [engine.utilities()[-1] for engine in world.engines]
            assert [each.call_id for each in sent] == expected
            assert [(each.method, list(each.args)) for each in sent] == [("ping", [1, "x"])] * 2
            await answered(world, call, (1, 11, None), (0, 10, None))
            assert call.result() == [10, 11]
            assert client.pending_utility_calls() == ()
        await client.shutdown()

    make_world().run(story)


def test_handshake_owner_orders_engines_by_identity_bytes(make_world):
    async def story(world):
        client = await world.connect()
        assert client.engine_indices() == (256, 1, 2)
        call = world.spawn(client.call_utility("ping", (), int))
        await answered(world, call, (0, 1, None), (1, 2, None), (2, 256, None))
        assert call.result() == [256, 1, 2]
        await client.shutdown()

    make_world(ranks=(1, 2, 256), owner=True).run(story)


def test_error_shows_only_once_every_engine_settled_and_is_the_lowest_engines(make_world):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.call_utility("add_lora", (), bool))
        await answered(world, call, (2, None, "two"))
        assert not call.done()
        assert client.pending_utility_calls() == (1, 2)
        await answered(world, call, (1, None, "one"))
        assert not call.done()
        await answered(world, call, (0, True, None))
        with pytest.raises(errors.UtilityCallFailed, match=r"failed \(call_id=2\): one"):
            call.result()
        assert client.pending_utility_calls() == ()
        await client.shutdown()

    world = make_world(ranks=(0, 1, 2))
    world.run(story)
    assert settled(world) == [
        (3, 2, "UtilityCallFailed"), (2, 1, "UtilityCallFailed"), (1, 0, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("result_type", "value", "fragment"),
    [
        (bool, None, "expected bool, got None"),
        (bool, 1, "expected bool, got 1"),
        (int, True, "expected int, got True"),
        (NIL, False, "expected nil, got False"),
        (str, ["x"], "expected str"),
        (list, "x", "expected list"),
    ],
)
def test_value_of_another_type_is_that_engines_outcome(make_world, result_type, value, fragment):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.call_utility("m", (), result_type))
        await answered(world, call, (0, value, None))
        assert not call.done()
        await answered(world, call, (1, None, "later"))
        with pytest.raises(errors.UtilityResultDecode, match=fragment):
            call.result()
        assert client.is_healthy
        await client.shutdown()

    make_world().run(story)


def test_failed_send_is_that_engines_outcome_and_the_others_still_get_the_call(make_world):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "utility", fail="broken pipe"))
        call = world.spawn(client.call_utility("m", (), object))
        await world.settled()
        assert not call.done()
        assert client.pending_utility_calls() == (2,)
        await answered(world, call, (1, 5, None))
        with pytest.raises(errors.Transport, match="broken pipe"):
            call.result()
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert settled(world) == [(1, 0, "Transport"), (2, 1, None)]
    assert world.told(UtilityReleased) == [UtilityReleased(1)]


def test_held_send_does_not_keep_the_other_engines_from_the_call(make_world):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "utility", hold="gate"))
        call = world.spawn(client.call_utility("m", (), object))
        await answered(world, call, (1, 5, None))
        assert not call.done()
        world.open("gate")
        await answered(world, call, (0, 4, None))
        assert call.result() == [4, 5]
        await client.shutdown()

    make_world().run(story)


def test_argument_that_cannot_be_encoded_releases_every_waiter_and_sends_nothing(make_world):
    async def story(world):
        client = await world.connect()
        with pytest.raises(errors.Encode):
            await client.call_utility("m", (object(),), object)
        await world.settled()
        assert client.pending_utility_calls() == ()
        assert [engine.inbox for engine in world.engines] == [[], []]
        await client.shutdown()

    make_world().run(story)


def test_cancelled_call_releases_its_waiters_and_late_replies_are_dropped(make_world):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.call_utility("m", (), object))
        await answered(world, call, (0, 1, None))
        assert client.pending_utility_calls() == (2,)
        call.cancel()
        await world.settled()
        assert call.cancelled()
        assert client.pending_utility_calls() == ()
        assert not [task for task in world.loop._live() if task.get_name().startswith("utility")]
        await world.engines[1].reply(2, 1)
        await world.settled()
        assert client.is_healthy
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert world.told(UtilityReleased) == [UtilityReleased(2)]
    assert world.told(UtilityReplyDropped) == [UtilityReplyDropped(2)]


@pytest.mark.parametrize("call_id", [1, 99, -1, -2])
def test_double_unknown_and_negative_replies_are_dropped_with_a_record(make_world, call_id):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.call_utility("m", (), object))
        await answered(world, call, (0, 1, None))
        await world.engines[0].reply(call_id, 2)
        await answered(world, call, (1, 3, None))
        assert call.result() == [1, 3]
        assert client.is_healthy
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert world.told(UtilityReplyDropped) == [UtilityReplyDropped(call_id)]


def test_reply_through_another_engines_socket_is_accepted(make_world):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.call_utility("m", (), object))
        await world.settled()
        await world.engines[1].reply(1, "zero")
        await world.engines[1].reply(2, "one")
        await world.settled()
        assert call.result() == ["zero", "one"]
        await client.shutdown()

    make_world().run(story)


def test_timeout_lists_who_settled_and_how(make_world):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.call_utility("m", (), object, timeout_s=2.5))
        await answered(world, call, (2, None, "no"), (0, True, None))
        with pytest.raises(errors.UtilityCallTimeout) as caught:
            await call
        assert caught.value.open_ranks == (1,)
        assert [rank for rank, _ in caught.value.settled] == [0, 2]
        assert "engine 0: ok True; engine 2: utility call `m` failed" in str(caught.value)
        assert "engine 1: silent" in str(caught.value)
        assert client.pending_utility_calls() == ()
        assert world.loop.time() == 2.5
        await client.shutdown()

    make_world(ranks=(0, 1, 2)).run(story)


def test_configured_timeout_is_the_default_of_every_call(make_world):
    async def story(world):
        client = await world.connect()
        with pytest.raises(errors.UtilityCallTimeout, match=r"timed out after 1s"):
            await client.is_paused()
        await client.shutdown()

    make_world(client={"utility_timeout_s": 1.0}).run(story)


def test_fatal_failure_reaches_waiting_calls(make_world):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.call_utility("m", (), object))
        await world.settled()
        await world.engines[0].push.send([b"ENGINE_CORE_DEAD"])
        with pytest.raises(errors.EngineCoreDead):
            await call
        with pytest.raises(errors.EngineCoreDead):
            await client.call_utility("m", (), object)
        await world.settled()
        assert [len(engine.utilities()) for engine in world.engines] == [1, 1]
        await client.shutdown()

    make_world().run(story)


def test_only_narrows_the_call_to_some_ranks(make_world):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.call_utility("m", (), object, only=(1,)))
        await answered(world, call, (1, 8, None))
        assert call.result() == [8]
        assert world.engines[0].utilities() == []
        assert await client.call_utility("m", (), object, only=()) == []
        await client.shutdown()

    make_world().run(story)


async def scripted(world, client, coroutine, values):
    call = world.spawn(coroutine)
    await answered(world, call, *[(at, value, None) for at, value in enumerate(values)])
    sent = [(each.method, list(each.args)) for each in world.engines[0].utilities()]
    return await call, sent[-1]


@pytest.mark.parametrize(
    ("release", "name", "args", "values", "result", "sent"),
    [
        ("0.33.0", "is_sleeping", (), (True, True), True, ("is_sleeping", [])),
        ("0.24.0", "is_paused", (), (False, False), False, ("is_scheduler_paused", [])),
        ("0.33.0", "sleep", (2, "wait"), (None, None), None, ("sleep", [2, "wait"])),
        ("0.30.0", "wake_up", (), (None, None), None, ("wake_up", [None])),
        ("0.31.0", "wake_up", (["a"],), (True, False), False, ("wake_up", [["a"]])),
        ("0.32.0", "pause", (), (None, None), None, ("pause_scheduler", ["abort", True])),
        ("0.33.0", "pause", ("keep", False), (None, None), None,
         ("pause_generation", ["keep", False])),
        ("0.33.0", "resume", (), (None, None), None, ("resume_scheduler", [])),
        ("0.33.0", "reset_prefix_cache", (), (True, True), True,
         ("reset_prefix_cache", [False, False])),
        ("0.22.0", "reset_prefix_cache", (True, True), (True, False), False,
         ("reset_prefix_cache", [True, True])),
        ("0.33.0", "reset_mm_cache", (), (None, None), None, ("reset_mm_cache", [])),
        ("0.33.0", "reset_encoder_cache", (), (None, None), None, ("reset_encoder_cache", [])),
        ("0.33.0", "release_kv_cache_memory", (), (None, None), None,
         ("release_kv_cache_memory", [])),
        ("0.33.0", "add_lora", (("n", 1, "p", None, False, False),), (True, True), True,
         ("add_lora", [["n", 1, "p", None, False, False]])),
        ("0.33.0", "remove_lora", (1,), (True, False), False, ("remove_lora", [1])),
        ("0.33.0", "pin_lora", (1,), (True, True), True, ("pin_lora", [1])),
        ("0.33.0", "list_loras", (), ([2, 1], [1, 2]), [1, 2], ("list_loras", [])),
        ("0.33.0", "collective_rpc", ("f", 3, ("a",), {"k": 1}), ([5], 6), [5, 6],
         ("collective_rpc", ["f", 3.0, ["a"], {"k": 1}])),
        ("0.33.0", "get_weight_version", (), ("v1", "v1"), "v1", ("get_weight_version", [])),
        ("0.33.0", "set_weight_version", ("v2",), (None, None), None,
         ("set_weight_version", ["v2"])),
        ("0.31.0", "profile", (), (None, None), None, ("profile", [True, None])),
        ("0.32.0", "profile", (True, "p", 1, 2), (None, None), None,
         ("profile", [True, "p", 1, 2])),
        ("0.33.0", "profile", (False,), (None, None), None, ("profile", [False, None])),
    ],
)  # fmt: skip
def test_named_method_has_the_arguments_and_the_joining_of_its_release(
    make_world, release, name, args, values, result, sent
):
    async def story(world):
        client = await world.connect()
        outcome = await scripted(world, client, getattr(client, name)(*args), values)
        await client.shutdown()
        return outcome

    assert make_world(release=release).run(story) == (result, sent)


@pytest.mark.parametrize("release", ["0.22.0", "0.33.0"])
def test_engines_that_disagree_are_an_error_naming_all_values(make_world, release):
    async def story(world):
        client = await world.connect()
        with pytest.raises(
            errors.InconsistentUtilityResults,
            match=r"inconsistent results across engines: \[true, false\]",
        ):
            await scripted(world, client, client.is_sleeping(), (True, False))
        await client.shutdown()

    make_world(release=release).run(story)


def test_profile_started_twice_is_refused_without_sending_since_0_32(make_world):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.profile())
        await answered(world, call, (0, None, "no"), (1, None, None))
        with pytest.raises(errors.UtilityCallFailed):
            await call
        for values in ((None, None), None, (None, None)):
            if values is None:
                with pytest.raises(errors.ProfileAlreadyActive):
                    await client.profile()
                await scripted(world, client, client.profile(start=False), (None, None))
            else:
                await scripted(world, client, client.profile(), values)
        await client.shutdown()
        return [next(iter(each.args)) for each in world.engines[0].utilities()]

    assert make_world(release="0.32.0").run(story) == [True, True, False, True]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("how", ["cancelled", "timed out"])
def test_caller_who_leaves_while_replies_arrive_leaves_an_event_for_every_id(make_world, how, seed):
    async def story(world):
        client = await world.connect()

        async def replies():
            await pause(1.0)
            for position, engine in enumerate(world.engines):
                await engine.reply(position + 1, True)

        async def leave():
            await pause(1.0)
            await turn()
            call.cancel()

        world.spawn(replies())
        limit = 1.0 if how == "timed out" else None
        call = world.spawn(client.call_utility("m", (), object, timeout_s=limit))
        if how == "cancelled":
            world.spawn(leave())
        with contextlib.suppress(errors.UtilityCallTimeout, asyncio.CancelledError):
            await call
        await world.settled()
        await client.shutdown()

    world = make_world(strategy="random", seed=seed)
    world.run(story)
    settled = [each.call_id for each in world.told(UtilitySettled)]
    dropped = [each.call_id for each in world.told(UtilityReplyDropped)]
    assert sorted(settled + dropped) == [1, 2]  # each reply settles or is dropped
    assert {each.call_id for each in world.told(UtilityReleased)} <= set(dropped)


def test_reply_that_came_before_its_send_failed_is_dropped_with_a_record(make_world):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "utility", hold="gate"))
        call = world.spawn(client.call_utility("m", (), object))
        await world.settled()
        await world.engines[1].reply(1, "in its place")
        await world.settled()
        world.engines[0].dealer.close()
        await world.settled()
        world.open("gate")
        await answered(world, call, (1, 2, None))
        with pytest.raises(errors.Transport):
            await call
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert world.told(UtilityReplyDropped) == [UtilityReplyDropped(1)]


def test_ids_that_are_no_integers_are_that_engines_outcome(make_world):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.list_loras())
        await answered(world, call, (0, [1, "a"], None))
        assert not call.done()
        await answered(world, call, (1, [1], None))
        with pytest.raises(errors.UtilityResultDecode, match="expected list of int"):
            await call
        await client.shutdown()

    make_world().run(story)


def test_result_type_that_cannot_be_checked_is_refused_before_anything_is_sent(make_world):
    async def story(world):
        client = await world.connect()
        with pytest.raises(TypeError, match=r"result type list\[int\] is none of bool"):
            await client.call_utility("m", (), list[int])
        await world.settled()
        assert [engine.inbox for engine in world.engines] == [[], []]
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert world.told(UtilityRegistered) == []


CALLS = {
    "sleep": (), "wake_up": (), "pause": (), "resume": (), "is_sleeping": (), "is_paused": (),
    "reset_prefix_cache": (), "reset_mm_cache": (), "reset_encoder_cache": (),
    "release_kv_cache_memory": (), "add_lora": ([],), "remove_lora": (1,), "pin_lora": (1,),
    "list_loras": (), "collective_rpc": ("f",), "profile": (), "get_weight_version": (),
    "set_weight_version": ("v",), "call_utility": ("m", (), object),
    "call_utility_consensus": ("m", (), object),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_every_method_takes_a_timeout_and_none_switches_the_configured_one_off(make_world, name):
    async def story(world):
        client = await world.connect()
        method = getattr(client, name)
        with pytest.raises(errors.UtilityCallTimeout, match=r"timed out after 3s"):
            await method(*CALLS[name], timeout_s=3.0)
        patient = world.spawn(method(*CALLS[name], timeout_s=None))
        await pause(60.0)
        assert not patient.done()
        patient.cancel()
        await world.settled()
        await client.shutdown()

    make_world(client={"utility_timeout_s": 1.0}).run(story)
