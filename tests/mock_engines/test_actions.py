"""Every action, carried out by an engine in simulation."""

import struct

import pytest

from client.protocol.codec_errors import DecodeError
from client.protocol.codec_tensors import tensor_ints
from client.protocol.ids import RequestId
from client.protocol.messages import (
    EngineCoreRequest,
    EngineDead,
    FinishReason,
    RequestBatch,
    RequestError,
    StartWave,
    WaveComplete,
)
from mock_engines import events
from mock_engines.cluster import ScriptError
from mock_engines.tokens import tokens_for


def on(kind, *do, **narrow):
    return [{"rules": [{"on": kind, "do": list(do), **narrow}]}]


def test_add_without_rule_streams_what_was_asked_for_and_ends_by_length(play):
    async def story(run):
        await run.peer.add("a", max_tokens=3)
        await run.settle()

    run = play(story)
    a, b, c = tokens_for("a", start=0, count=3)
    assert run.peer.rows() == [("a", (a,), None), ("a", (b,), None), ("a", (c,), "length")]
    assert run.cluster.state(0)["requests"] == []
    assert run.seen(events.AddSeen)[0].prompt == (1, 2)


@pytest.mark.parametrize("reason", ["stop", "length", "abort", "error", "repetition"])
def test_stream_ends_with_each_finish_reason(play, reason):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    run = play(story, specs=on("add", {"stream": {"tokens": 2, "finish": reason}}))
    assert [row[2] for row in run.peer.rows()] == [None, reason]
    assert [event.finish for event in run.seen(events.OutputSent)] == [None, reason]


def test_stream_in_chunks_has_a_short_last_one(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    run = play(story, specs=on("add", {"stream": {"tokens": 5, "chunk": 2}}))
    assert [len(row[1]) for row in run.peer.rows()] == [2, 2, 1]


def test_stream_of_no_tokens_ends_in_an_empty_row_or_says_nothing(play):
    async def story(run):
        await run.peer.add("a")
        await run.peer.add("b")
        await run.settle()

    rules = [
        {"on": "add", "request": "a", "do": {"stream": {"tokens": 0}}},
        {"on": "add", "request": "b", "do": {"stream": {"tokens": 0, "finish": None}}},
    ]
    run = play(story, specs=[{"rules": rules}])
    assert run.peer.rows() == [("a", (), "length")]
    assert run.cluster.state(0)["requests"] == ["b"]


@pytest.mark.parametrize(("pause_at", "before"), [(None, 0), (0, 0), (1, 1), (3, 2), (4, 2)])
def test_stream_pauses_at_a_gate_with_exactly_that_many_tokens_gone(play, pause_at, before):
    seen = []

    async def story(run):
        await run.peer.add("a")
        await run.settle()
        seen.append((len(run.peer.rows()), sum(len(row[1]) for row in run.peer.rows())))
        assert [row[2] for row in run.peer.rows()] == [None] * before
        await run.cluster.idle()
        run.gates.open("g")
        await run.cluster.idle()
        await run.settle()

    spec = on("add", {"stream": {"tokens": 4, "chunk": 2, "pause_at": pause_at, "gate": "g"}})
    run = play(story, specs=spec)
    assert seen == [(before, pause_at or 0)]
    assert sum((row[1] for row in run.peer.rows()), ()) == tokens_for("a", start=0, count=4)
    assert run.peer.rows()[-1][2] == "length"


def test_stream_stops_quietly_when_it_is_aborted_on_the_way(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()
        await run.peer.abort("a")
        await run.settle()
        run.gates.open("g")
        await run.cluster.idle()
        await run.settle()

    run = play(story, specs=on("add", {"stream": {"tokens": 4, "pause_at": 1, "gate": "g"}}))
    assert len(run.peer.rows()) == 1
    assert run.seen(events.AbortSeen) == [events.AbortSeen(0, ("a-0123abcd",))]
    assert run.cluster.state(0)["requests"] == []


@pytest.mark.parametrize(
    ("release", "error"),
    [("0.33.0", RequestError("oops", "no", retryable=True)), ("0.32.0", None)],
)
def test_stream_error_travels_where_the_release_has_it(play, release, error):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    told = {"code": "oops", "message": "no", "retryable": True}
    action = {"stream": {"tokens": 1, "finish": "error", "error": told}}
    run = play(story, specs=on("add", action), release=release)
    row = run.peer.kinds[0].outputs[0]
    assert (row.finish_reason, row.error) == (FinishReason.ERROR, error)


def test_stream_carries_stop_reason_and_kv_transfer_params_on_its_last_row(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    action = {"stream": {"tokens": 2, "stop_reason": 7, "kv_transfer_params": {"x": 1}}}
    run = play(story, specs=on("add", action))
    first, last = (kind.outputs[0] for kind in run.peer.kinds)
    assert (first.stop_reason, first.kv_transfer_params) == (None, None)
    assert (last.stop_reason, last.kv_transfer_params) == (7, {"x": 1})


def test_two_streams_in_one_rule_continue_each_other(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    do = [{"stream": {"tokens": 2, "finish": None}}, {"stream": {"tokens": 1}}]
    run = play(story, specs=on("add", *do))
    assert sum((row[1] for row in run.peer.rows()), ()) == tokens_for("a", start=0, count=3)


def test_dropped_add_is_seen_and_never_served(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    run = play(story, specs=on("add", {"drop": True}))
    assert len(run.seen(events.AddSeen)) == 1
    assert (run.peer.rows(), run.cluster.state(0)["requests"]) == ([], [])


def test_dropped_abort_lets_the_stream_go_on(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()
        await run.peer.abort("a")
        await run.settle()
        run.gates.open("g")
        await run.settle()

    rules = [
        {"on": "add", "do": {"stream": {"tokens": 2, "pause_at": 1, "gate": "g"}}},
        {"on": "abort", "do": {"drop": True}},
    ]
    run = play(story, specs=[{"rules": rules}])
    assert run.peer.rows()[-1][2] == "length"


def test_output_row_for_the_request_that_matched_and_for_any_other(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()
        await run.cluster.act(0, run.actions({"output": {"request": "a", "tokens": [9]}}))
        await run.cluster.act(
            0, run.actions({"output": {"request": "ghost", "tokens": [8], "times": 2}})
        )
        await run.settle()

    run = play(story, specs=on("add", {"output": {"tokens": [97, 98], "finish": "stop"}}))
    assert run.peer.rows() == [
        ("a", (97, 98), "stop"),
        ("a", (9,), None),
        ("ghost", (8,), None),
        ("ghost", (8,), None),
    ]
    assert run.cluster.state(0)["requests"] == []


def test_output_row_carries_logprobs_of_its_tokens_and_of_the_prompt(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    output = {"tokens": [97, 255], "logprobs": 2, "prompt_logprobs": [105]}
    run = play(story, specs=on("add", {"output": output}))
    (row,) = run.peer.kinds[0].outputs
    ids, values, ranks, no_bounds = row.new_logprobs
    assert (ids.shape, tensor_ints(ids)) == ((2, 3), (97, 97, 98, 255, 255, 0))
    assert struct.unpack("<6f", values.data) == (-0.5, -0.5, -1.5) * 2
    assert (tensor_ints(ranks), no_bounds) == ((1, 1), None)
    assert tensor_ints(row.new_prompt_logprobs_tensors[0]) == (105, 105)


def test_output_row_without_tokens_has_no_logprobs(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    run = play(story, specs=on("add", {"output": {"logprobs": 2, "finish": "abort"}}))
    assert run.peer.kinds[0].outputs[0].new_logprobs is None


def test_output_row_can_carry_another_engine_index(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    run = play(story, specs=on("add", {"output": {"tokens": [1], "engine_index": 99}}))
    assert [kind.engine_index for kind in run.peer.kinds] == [99]


def test_output_without_request_is_refused_outside_a_rule(play):
    async def story(run):
        with pytest.raises(ScriptError, match="needs a 'request'"):
            await run.cluster.act(0, run.actions({"output": {"tokens": [1]}}))

    play(story)


def test_finish_only_reports_the_end_without_a_final_output(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    run = play(story, specs=on("add", {"finish_only": True}))
    (batch,) = run.peer.kinds
    assert (batch.outputs, batch.finished_requests) == ((), ("a-0123abcd",))
    assert run.seen(events.FinishedOnlySent) == [events.FinishedOnlySent(0, ("a-0123abcd",))]
    assert run.cluster.state(0)["requests"] == []


def test_finish_only_on_abort_names_the_aborted(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()
        await run.peer.abort("a")
        await run.settle()

    rules = [
        {"on": "add", "do": {"hang": True}},
        {"on": "abort", "do": {"finish_only": True}},
    ]
    run = play(story, specs=[{"rules": rules}])
    assert run.peer.kinds[0].finished_requests == ("a-0123abcd",)


def test_utility_without_rule_is_applied_then_answered(play):
    async def story(run):
        await run.peer.utility("add_lora", ["x", 3, "/p"])
        await run.peer.utility("nope")
        await run.settle()

    run = play(story)
    good, bad = run.peer.replies()
    assert good == (1, None, True)
    assert (bad[0], "no utility method 'nope'" in bad[1]) == (2, True)
    assert run.cluster.state(0)["loras"] == [3]
    kinds = [type(event) for event in run.events]
    applied, sent = kinds.index(events.UtilityApplied), kinds.index(events.UtilityReplySent)
    assert applied < sent
    assert run.events[applied].state == "loras=[3]"


def test_calls_take_effect_in_the_order_of_their_arrival(play):
    async def story(run):
        for number in (1, 2):
            await run.peer.utility("add_lora", ["x", number, "/p"])
            await run.peer.utility("remove_lora", 1)
        await run.settle()

    run = play(story, chooser=Lifo())
    assert [value for _, _, value in run.peer.replies()] == [True, True, True, False]


class Lifo:
    """The newest entry first: whatever may be reordered is."""

    def choose(self, n, labels=None):
        return n - 1


def test_reply_and_fail_answer_as_told_whatever_the_method(play):
    async def story(run):
        for method in ("is_sleeping", "sleep", "wake_up"):
            await run.peer.utility(method)
        await run.settle()

    rules = [
        {"on": "utility", "method": "is_sleeping", "do": {"reply": "yes"}},
        {"on": "utility", "method": "sleep", "do": {"fail": "no bed"}},
        {"on": "utility", "method": "wake_up", "do": {"reply": None}},
    ]
    run = play(story, specs=[{"rules": rules}])
    assert run.peer.replies() == [(1, None, "yes"), (2, "no bed", None), (3, None, None)]
    assert run.seen(events.UtilityReplySent)[1] == events.UtilityReplySent(
        0, 2, "sleep", "no bed", "None"
    )


def test_reply_with_repeats_shifts_and_replaces_the_call_id(play):
    async def story(run):
        for _ in range(3):
            await run.peer.utility("is_sleeping")
        await run.settle()
        await run.cluster.act(0, run.actions({"reply_with": {"call_id": -2, "value": 5}}))
        with pytest.raises(ScriptError, match="needs a utility call"):
            await run.cluster.act(0, run.actions({"reply_with": {"value": 5}}))
        await run.settle()

    rules = [
        {"on": "utility", "nth": 1, "do": {"reply_with": {"value": True, "times": 2}}},
        {"on": "utility", "nth": 1, "do": {"reply_with": {"value": 1, "add_to_call_id": 1000}}},
        {"on": "utility", "do": {"reply_with": {"failure": "x", "call_id": 77, "engine_index": 5}}},
    ]
    run = play(story, specs=[{"rules": rules}])
    assert run.peer.replies() == [
        (1, None, True),
        (1, None, True),
        (1002, None, 1),
        (77, "x", None),
        (-2, None, 5),
    ]
    assert run.peer.kinds[3].engine_index == 5


def test_apply_takes_effect_without_an_answer(play):
    async def story(run):
        await run.peer.utility("add_lora", ["x", 3, "/p"])
        await run.settle()
        assert run.cluster.state(0)["loras"] == [3]
        assert run.peer.replies() == []
        run.gates.open("g")
        await run.settle()

    run = play(story, specs=on("utility", {"apply": True}, {"hang": "g"}, {"fail": "late"}))
    assert run.peer.replies() == [(1, "late", None)]


def test_hanging_call_holds_up_no_other_and_is_answered_after_its_gate(play):
    async def story(run):
        await run.peer.utility("add_lora", ["x", 3, "/p"])
        await run.peer.utility("is_sleeping")
        await run.settle()
        assert run.peer.replies() == [(2, None, False)]
        assert run.gates.waiting("g") == 1
        await run.cluster.idle()
        run.gates.open("g")
        await run.cluster.idle()
        await run.settle()

    specs = on("utility", {"hang": "g"}, {"default": True}, method="add_lora")
    run = play(story, specs=specs)
    assert run.peer.replies() == [(2, None, False), (1, None, True)]


def test_call_that_hangs_for_ever_is_idle_and_stays_so_when_all_gates_open(play):
    async def story(run):
        await run.peer.utility("is_sleeping")
        await run.settle()
        run.gates.open_all()
        await run.cluster.idle()

    run = play(story, specs=on("utility", {"hang": True}, {"default": True}))
    assert run.peer.replies() == []


def test_delay_passes_on_the_virtual_clock_and_is_not_idle(play):
    times = []

    async def story(run):
        await run.peer.utility("is_sleeping")
        await run.settle()
        times.append(run.now())
        await run.cluster.idle()
        times.append(run.now())
        await run.settle()

    run = play(story, specs=on("utility", {"delay_ms": 250}, {"default": True}))
    assert times[1] - times[0] == pytest.approx(0.25)
    assert run.peer.replies() == [(1, None, False)]


def test_stats_leave_on_either_path_with_any_index(play):
    async def story(run):
        await run.cluster.act(
            0,
            run.actions(
                {"stats": {"running": 3, "waiting": 2}},
                {"stats": {"engine_index": 65536 + 1}},
                {"stats": {"running": 1, "path": "coordinator"}},
            ),
        )
        await run.settle()

    run = play(story, coordinator=True)
    first, second = run.peer.kinds
    assert first.scheduler_stats["num_running_reqs"] == 3
    assert (first.engine_index, second.engine_index) == (0, 65537)
    (notice,) = (run.peer.codec.classify(frames) for frames in run.peer.notices)
    assert notice.scheduler_stats["num_running_reqs"] == 1
    assert [(e.engine_index, e.path) for e in run.seen(events.StatsSent)] == [
        (0, "main"),
        (65537, "main"),
        (0, "coordinator"),
    ]


@pytest.mark.parametrize("release", ["0.22.0", "0.33.0"])
def test_stats_have_every_key_that_the_release_requires(play, release):
    async def story(run):
        await run.cluster.act(0, run.actions({"stats": {}}))
        await run.settle()

    run = play(story, release=release)
    assert isinstance(run.peer.kinds[0], RequestBatch)


def test_raw_frames_leave_as_they_are_on_each_socket(play):
    async def story(run):
        before = len(run.peer.registrations)
        await run.cluster.act(
            0,
            run.actions(
                {"raw": {"frames": ["ff", "text:hi"]}},
                {"raw": {"frames": ["c1"], "path": "coordinator"}},
                {"raw": {"frames": ["00"], "path": "input"}},
            ),
        )
        await run.settle()
        assert run.peer.registrations[before:] == [[b"\x00\x00", b"\x00"]]
        with pytest.raises(ScriptError, match="no handshake socket"):
            await run.cluster.act(0, run.actions({"raw": {"frames": ["00"], "path": "handshake"}}))

    run = play(story, coordinator=True)
    assert run.peer.raw == [[b"\xff", b"hi"]]
    assert isinstance(run.peer.kinds[0], DecodeError)
    assert run.peer.notices == [[b"\xc1"]]
    assert run.seen(events.RawSent)[0] == events.RawSent(0, "main", ("ff", "6869"))


def test_sentinel_is_the_last_word_of_an_engine(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    do = [
        {"stream": {"tokens": 1, "finish": None}},
        {"die": "sentinel"},
        {"output": {"tokens": [1]}},
    ]
    run = play(story, specs=on("add", *do))
    assert run.peer.kinds[-1] == EngineDead()
    assert len(run.peer.kinds) == 2
    assert run.seen(events.EngineDied) == [events.EngineDied(0, "sentinel")]
    assert run.cluster.state(0)["alive"] is False


@pytest.mark.parametrize("how", ["close", "vanish"])
def test_engine_that_dies_says_nothing_and_hears_nothing(play, how):
    async def story(run):
        await run.peer.add("a")
        await run.settle()
        with pytest.raises(ScriptError, match="dead"):
            await run.cluster.act(0, run.actions({"stats": {}}))
        await run.cluster.idle()

    specs = on("add", {"stream": {"tokens": 1, "finish": None}}, {"hang": "g"}, {"default": True})
    specs[0]["rules"].insert(0, {"on": "add", "nth": 1, "do": [{"die": how}]})
    run = play(story, specs=specs)
    assert run.peer.kinds == []
    assert run.seen(events.EngineDied) == [events.EngineDied(0, how)]


def test_notices_carry_given_own_and_foreign_numbers(play):
    async def story(run):
        await run.cluster.act(
            0,
            run.actions(
                {"wave_complete": 4},
                {"wave_complete": None},
                {"start_wave": None},
                {"start_wave": {"wave": 9, "engine_index": 77}},
            ),
        )
        await run.settle()

    run = play(story, coordinator=True, waves="script")
    assert [run.peer.codec.classify(frames) for frames in run.peer.notices] == [
        WaveComplete(0, 4),
        WaveComplete(0, 5),
        StartWave(0, 6),
        StartWave(77, 9),
    ]
    assert [(e.notice, e.wave) for e in run.seen(events.WaveNoticeSent)] == [
        ("complete", 4),
        ("complete", 5),
        ("start", 6),
        ("start", 9),
    ]


def test_notice_without_a_coordinator_is_a_fault_of_the_script(play):
    async def story(run):
        with pytest.raises(ScriptError, match="has no coordinator"):
            await run.cluster.act(0, run.actions({"wave_complete": 1}))

    play(story)


@pytest.mark.parametrize(("real", "count", "shown"), [(False, 7, 9), (True, 10, 3)])
def test_flood_rises_and_is_witnessed_now_and_then(play, real, count, shown):
    async def story(run):
        flood = {"start": 5, "count": 7, "count_real": 10, "start_wave_every": 3}
        await run.cluster.act(0, run.actions({"flood": flood}))
        await run.settle()

    run = play(story, coordinator=True, waves="script", real_peer=real)
    kinds = [run.peer.codec.classify(frames) for frames in run.peer.notices]
    completes = [kind.wave for kind in kinds if isinstance(kind, WaveComplete)]
    assert completes == list(range(5, 5 + count))
    starts = [kind.wave for kind in kinds if isinstance(kind, StartWave)]
    assert starts == [8, 11] + ([14] if real else [])
    assert len(run.seen(events.WaveNoticeSent)) == shown


def test_engine_opens_a_gate_for_another(play):
    async def story(run):
        await run.peer.utility("is_sleeping", rank=1)
        await run.settle()
        assert run.peer.replies() == []
        await run.peer.utility("is_sleeping", rank=0)
        await run.settle()

    rule = {"on": "utility", "method": "is_sleeping"}
    specs = [
        {"engine": 0, "rules": [{**rule, "do": [{"open": "g"}, {"reply": 0}]}]},
        {"engine": 1, "rules": [{**rule, "do": [{"hang": "g"}, {"reply": 1}]}]},
    ]
    run = play(story, specs=specs, ranks=(0, 1))
    assert [value for _, _, value in run.peer.replies()] == [0, 1]


@pytest.mark.parametrize(("mode", "ends"), [("abort", ["abort"]), ("keep", []), ("wait", [])])
def test_pause_treats_running_requests_by_its_mode(play, mode, ends):
    seen = []

    async def story(run):
        await run.peer.add("a")
        await run.settle()
        await run.peer.utility("pause_generation", mode, True)
        await run.settle()
        seen.append(([r[2] for r in run.peer.rows("a")[1:]], len(run.peer.replies())))
        run.gates.open("g")
        await run.cluster.idle()
        await run.settle()
        seen.append(len(run.peer.replies()))
        await run.peer.utility("resume_scheduler")
        await run.cluster.idle()
        await run.settle()

    specs = on("add", {"stream": {"tokens": 2, "pause_at": 1, "gate": "g"}}, request="a")
    run = play(story, specs=specs)
    assert seen == [(ends, 0 if mode == "wait" else 1), 1]
    assert run.peer.rows("a")[-1][2] == ("abort" if mode == "abort" else "length")


@pytest.mark.parametrize(("release", "rejected"), [("0.33.0", True), ("0.32.0", False)])
def test_new_request_in_a_pause_is_rejected_or_queued_by_release(play, release, rejected):
    seen = []

    async def story(run):
        method = "pause_generation" if rejected else "pause_scheduler"
        await run.peer.utility(method, "abort", True)
        await run.peer.add("a")
        await run.settle()
        seen.append(run.peer.rows())
        await run.peer.utility("resume_scheduler")
        await run.settle()

    run = play(story, release=release)
    assert seen == [[("a", (), "error")] if rejected else []]
    assert run.peer.rows()[-1][2] == ("error" if rejected else "length")


def test_start_wave_is_seen_also_where_it_excludes_and_drop_loses_it(play):
    async def story(run):
        await run.peer.start_wave(3, exclude=1)
        await run.settle()

    specs = [{"engine": 2, "rules": [{"on": "start_wave", "do": {"drop": True}}]}]
    run = play(story, specs=specs, ranks=(0, 1, 2), coordinator=True, waves="script")
    assert len(run.seen(events.StartWaveSeen)) == 3
    assert [run.cluster.state(rank)["wave"] for rank in (0, 1, 2)] == [3, 0, 0]


def test_flood_of_a_rule_lets_others_run_beside_it(play):
    async def story(run):
        await run.peer.add("a")
        await run.peer.utility("is_sleeping")
        await run.settle()

    run = play(story, specs=on("add", {"flood": {"count": 40}}), coordinator=True)
    sent = [event for event in run.events if isinstance(event, events.WaveNoticeSent)]
    assert [event.wave for event in sent if event.notice == "complete"] == [*range(40)]
    answered = run.events.index(run.seen(events.UtilityReplySent)[0])
    assert answered < run.events.index(sent[-1])


def test_add_that_only_takes_effect_is_kept_and_never_served(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    run = play(story, specs=on("add", {"apply": True}))
    assert run.peer.rows() == []
    assert run.cluster.state(0)["requests"] == ["a"]


def test_call_that_takes_effect_and_would_fail_changes_nothing_and_is_not_answered(play):
    async def story(run):
        before = run.cluster.state(0)
        await run.peer.utility("add_lora", "no list")
        await run.peer.utility("no_such_method")
        await run.settle()
        assert {**run.cluster.state(0), "rules_met": before["rules_met"]} == before

    run = play(story, specs=on("utility", {"apply": True}))
    assert run.peer.replies() == []
    assert run.seen(events.UtilityApplied) == []


@pytest.mark.parametrize("action", [{"default": True}, {"stream": {"tokens": 2}}])
@pytest.mark.parametrize("waves", ["auto", "lockstep"])
def test_dropped_add_is_not_served_by_what_stands_behind_the_drop(play, action, waves):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    specs = on("add", {"drop": True}, action)
    run = play(story, specs=specs, waves=waves, coordinator=True)
    assert run.peer.rows() == []
    assert run.cluster.state(0)["requests"] == []


def test_request_that_is_to_be_aborted_at_once_is_ended_without_a_token(play):
    async def story(run):
        request = EngineCoreRequest(
            request_id=RequestId("a-0123abcd"),
            prompt_token_ids=[1],
            sampling_params={"max_tokens": 3},
            external_req_id="a",
            abort_immediately=True,
        )
        await run.peer.send(0, run.peer.codec.encode_add(request))
        await run.settle()

    run = play(story)
    assert run.peer.rows() == [("a", (), "abort")]
    assert run.cluster.state(0)["requests"] == []


def test_shut_down_is_refused_by_an_engine_that_steps_alone(play, actions):
    async def story(run):
        with pytest.raises(ScriptError, match="needs engines that step together"):
            await run.cluster.act(0, actions({"shut_down": "drain"}))

    play(story)


def test_stats_of_an_engine_that_steps_with_others_are_of_its_own_wave(play, actions):
    async def story(run):
        await run.peer.add("a", wave=4, max_tokens=1)
        await run.settle()
        assert run.cluster.state(0)["wave"] == 5
        await run.cluster.act(0, actions({"stats": {"running": 1}}))
        await run.settle()

    run = play(story, waves="lockstep", coordinator=True)
    shown = [kind.scheduler_stats for kind in run.peer.kinds if isinstance(kind, RequestBatch)]
    assert [stats["current_wave"] for stats in shown if stats is not None] == [5]
