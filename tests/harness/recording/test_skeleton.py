"""The scenario of a session: valid, and it goes as the session went."""

from __future__ import annotations

import pytest

from client.protocol.codec import Codec
from client.protocol.ids import CallId, RequestId
from client.protocol.messages import (
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    FinishReason,
    UtilityCall,
    UtilityOutput,
)
from client.protocol.profiles import profile_for
from harness.capture.recording import FROM_ENGINE, INPUT, OUTPUT, TO_ENGINE, Frame

PROFILE = profile_for("0.33.0")
CODEC = Codec(PROFILE)
FIXED_SET = (
    "capture/01-generate", "capture/03-leave", "capture/04-finish-reasons", "capture/05-ranks",
    "capture/06-sleep", "capture/08-lora", "capture/09-pause", "capture/12-waves",
    "capture/13-engine-dead",
)  # fmt: skip
OTHERS = (
    "utility/failing-beside-hanging",
    "requests/dropped-stream",
    "requests/explicit-abort",
    "lifecycle/two-frontends-die-with-an-engine",
    "waves/external-first-request",
)


class Talk:
    """Messages of engines 0 and 1, made by hand."""

    def __init__(self):
        self.frames = []

    def _say(self, engine, socket, direction, parts):
        n = len(self.frames)
        self.frames.append(Frame(n, n, engine, socket, direction, tuple(parts)))
        return self

    def add(self, engine, name, **more):
        request = EngineCoreRequest(
            request_id=RequestId(f"{name}-0123abcd"),
            external_req_id=name,
            prompt_token_ids=more.pop("prompt", (1, 2)),
            sampling_params={"max_tokens": 8, **more.pop("params", {})},
            **more,
        )
        return self._say(engine, INPUT, TO_ENGINE, CODEC.encode_add(request))

    def abort(self, engine, name):
        return self._say(engine, INPUT, TO_ENGINE, CODEC.encode_abort([f"{name}-0123abcd"]))

    def row(self, engine, name, tokens, finish=None, **more):
        row = EngineCoreOutput(
            request_id=RequestId(f"{name}-0123abcd"),
            new_token_ids=tuple(range(tokens)),
            finish_reason=None if finish is None else FinishReason[finish.upper()],
            **more,
        )
        return self._outputs(engine, outputs=(row,))

    def call(self, engine, number, method, *args):
        call = UtilityCall(0, CallId(number), method, args)
        return self._say(engine, INPUT, TO_ENGINE, CODEC.encode_utility(call))

    def reply(self, engine, number, value=None, failure=None):
        return self._outputs(engine, utility_output=UtilityOutput(CallId(number), failure, value))

    def _outputs(self, engine, **fields):
        frames = CODEC.encode_outputs(EngineCoreOutputs(engine_index=engine, **fields))
        return self._say(engine, OUTPUT, FROM_ENGINE, frames)


def rules_of(loaded, engine):
    for spec in loaded.scenario.engines:
        if spec.engine == engine:
            return [rule.model_dump(exclude_unset=True) for rule in spec.rules]
    return []


def verbs_of(loaded):
    return [step.verb for step in loaded.scenario.steps]


@pytest.mark.parametrize("release", ["0.33.0", "0.24.0"])
def test_the_scenario_of_every_story_of_the_fixed_set_holds(
    frames_of, skeleton_of, played, release
):
    for name, frames in frames_of(release, *FIXED_SET).items():
        loaded, _ = skeleton_of(frames, release, name)
        result = played(loaded)
        assert (name, result.status, result.error) == (name, "held", None)


@pytest.mark.parametrize("name", OTHERS)
def test_the_scenario_of_a_stranger_session_holds(frames_of, skeleton_of, played, name):
    frames = frames_of("0.32.0", name)[name]
    loaded, _ = skeleton_of(frames, "0.32.0", name)
    assert (name, played(loaded).status) == (name, "held")


def test_a_recorded_failure_is_red_where_an_engine_would_not_fail(
    frames_of, skeleton_of, played, tmp_path
):
    name = "utility/failing-beside-hanging"
    loaded, _ = skeleton_of(frames_of("0.33.0", name)[name], "0.33.0", name)
    assert "fail: boom" in loaded.text
    assert "message: boom" in loaded.text
    assert "# - when each engine answered a call: all do at once here" in loaded.text
    loaded.path.write_text(loaded.text.replace("fail: boom", "reply: 1"))
    from harness.scenario.loader import load

    assert played(load(loaded.path)).status == "violated"


def test_requests_keep_order_engine_prompt_and_end(skeleton_of, played):
    talk = Talk().add(1, "first", prompt=(7, 8, 9)).add(0, "second")
    talk.row(1, "first", 2).row(0, "second", 1).row(1, "first", 2).row(1, "first", 1, "stop")
    talk.row(0, "second", 0, "error")
    loaded, _ = skeleton_of(talk.frames, "0.33.0")
    first, second = loaded.scenario.steps[:2]
    assert (first.call.id, first.call.rank, first.call.prompt) == ("first", 1, [7, 8, 9])
    assert (second.call.id, second.call.rank, second.call.max_tokens) == ("second", 0, 8)
    assert verbs_of(loaded)[2:4] == ["finish", "expect"]
    assert rules_of(loaded, 1) == [
        {"on": "add", "request": "first",
         "do": [{"stream": {"tokens": 5, "chunk": 2, "finish": "stop"}}]}
    ]  # fmt: skip
    assert rules_of(loaded, 0)[0]["do"] == [{"stream": {"tokens": 1, "finish": "error"}}]
    assert played(loaded).status == "held"


def test_an_engine_that_does_what_ours_do_needs_no_rule(skeleton_of):
    talk = Talk().add(0, "plain")
    for _ in range(7):
        talk.row(0, "plain", 1)
    talk.row(0, "plain", 1, "length").call(0, 1, "is_sleeping").reply(0, 1, value=False)
    loaded, _ = skeleton_of(talk.frames, "0.33.0")
    assert loaded.scenario.engines == []


def test_an_abort_comes_when_as_much_had_been_streamed(skeleton_of, played):
    talk = Talk().add(0, "left").add(1, "other").row(0, "left", 1).row(0, "left", 1)
    talk.abort(0, "left").row(1, "other", 1, "stop")
    loaded, _ = skeleton_of(talk.frames, "0.33.0")
    assert verbs_of(loaded) == [
        "call", "call", "wait", "drop", "fence", "open", "expect", "finish", "expect", "fence",
        "expect",
    ]  # fmt: skip
    wait = loaded.scenario.steps[2].wait
    assert (wait.event, wait.request, wait.count) == ("output", "left", 2)
    assert played(loaded).status == "held"


def test_answers_that_ours_would_not_give_become_rules_that_count(skeleton_of, played):
    talk = Talk()
    answers = [(None, "broken"), (True, None), (False, None)]
    for number, (value, failure) in enumerate(answers):
        talk.call(0, number, "reset_prefix_cache", False, False).reply(0, number, value, failure)
    loaded, _ = skeleton_of(talk.frames, "0.33.0")
    assert [(rule["nth"], rule["do"]) for rule in rules_of(loaded, 0)] == [
        (1, [{"fail": "broken"}]),
        (2, [{"apply": True}, {"reply": False}]),
    ]
    ends = [step.expect.outcome for step in loaded.scenario.steps if step.expect is not None]
    assert ends == ["failed", "finished", "finished", None]
    assert played(loaded).status == "held"


def test_a_fan_out_is_one_step_also_when_one_engine_answers_at_once(skeleton_of):
    talk = Talk().call(0, 0, "is_sleeping").reply(0, 0, value=False)
    talk.call(1, 1, "is_sleeping").reply(1, 1, value=False)
    talk.call(0, 2, "is_sleeping").call(1, 3, "is_sleeping")
    talk.reply(1, 3, value=False).reply(0, 2, value=False)
    loaded, _ = skeleton_of(talk.frames, "0.33.0")
    assert verbs_of(loaded)[:4] == ["utility", "finish", "utility", "finish"]


def test_calls_are_made_by_the_methods_of_the_api_where_these_send_the_same(skeleton_of, played):
    calls = [
        ("is_scheduler_paused", (), False, "is_paused", []),
        ("pause_generation", ("keep", True), None, "pause", ["keep"]),
        ("resume_scheduler", (), None, "resume", []),
        ("wake_up", (["weights"],), True, "wake_up", [["weights"]]),
        ("wake_up", (None,), True, "wake_up", []),
        ("collective_rpc", ("echo", None, [], {}), [None], "collective_rpc", ["echo"]),
        ("add_lora", (["name", 3, "path", None, False, False],), True, "add_lora", None),
        ("profile", (True, None, None, None), None, "profile", []),
    ]
    talk = Talk()
    for number, (method, args, value, _, _) in enumerate(calls):
        talk.call(0, number, method, *args).reply(0, number, value=value)
    loaded, _ = skeleton_of(talk.frames, "0.33.0")
    steps = [step.utility for step in loaded.scenario.steps if step.utility is not None]
    assert [(step.method, step.via) for step in steps] == [
        (method, "method") for *_, method, _ in calls
    ]
    for step, (*_, given) in zip(steps, calls, strict=True):
        assert given is None or step.args == given
    assert played(loaded).status == "held"


def test_calls_that_no_method_of_the_api_makes_are_sent_as_they_were(skeleton_of, played):
    talk = Talk().call(0, 1, "its_own", 5).reply(0, 1, value=7)
    talk.call(0, 2, "sleep", 1, "wait", "more").reply(0, 2, failure="too many")
    talk.call(0, 3, "get_weight_version").reply(0, 3, value=17)
    loaded, _ = skeleton_of(talk.frames, "0.33.0")
    steps = [step.utility for step in loaded.scenario.steps if step.utility is not None]
    assert [(step.method, step.via, step.args) for step in steps] == [
        ("its_own", "raw", [5]),
        ("sleep", "raw", [1, "wait", "more"]),
        ("get_weight_version", "raw", []),
    ]
    assert played(loaded).status == "held"


def test_a_call_that_looked_answered_for_a_moment_is_not_waited_for(skeleton_of, played):
    talk = Talk().call(0, 0, "is_sleeping").reply(0, 0, value=False).call(1, 1, "is_sleeping")
    loaded, _ = skeleton_of(talk.frames, "0.33.0")
    assert verbs_of(loaded) == ["utility", "fence", "expect"]
    assert played(loaded).status == "held"


def test_a_call_that_had_no_answer_stays_open_and_is_said(skeleton_of, played):
    talk = Talk().call(0, 0, "sleep", 1, "wait")
    loaded, skeleton = skeleton_of(talk.frames, "0.33.0")
    assert loaded.scenario.open_at_end == ["sleep-1"]
    assert "the answer to a call that had none at the end" in skeleton.notes()
    assert played(loaded).status == "held"


def test_what_is_not_carried_over_is_said_in_the_file(skeleton_of):
    talk = Talk().add(0, "x", params={"temperature": 0.5, "stop": ["end"]}, cache_salt="s",
                      prompt=tuple(range(500)))  # fmt: skip
    talk.row(0, "x", 1, "stop", pooling_output=None).row(0, "x", 3).abort(0, "never")
    talk._say(0, OUTPUT, FROM_ENGINE, [b"\xc1"])._say(0, INPUT, TO_ENGINE, [b"\x09", b""])
    loaded, skeleton = skeleton_of(talk.frames, "0.33.0")
    notes = " | ".join(skeleton.notes())
    for text in ("stop, temperature", "cache_salt", "behind the first 128", "that had ended",
                 "never had", "refuses", "nobody knows"):  # fmt: skip
        assert text in notes
        assert text in loaded.text.partition("title:")[0]
    assert len(loaded.scenario.steps[0].call.prompt) == 128


def test_a_session_that_is_too_long_is_cut_and_says_so(skeleton_of, played):
    talk = Talk()
    for number in range(350):
        talk.add(number % 2, f"r{number}").row(number % 2, f"r{number}", 8, "length")
    loaded, skeleton = skeleton_of(talk.frames, "0.33.0")
    assert sum(step.call is not None for step in loaded.scenario.steps) == 300
    assert any("the last 50 requests and calls" in note for note in skeleton.notes())
    assert played(loaded).status == "held"


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("chat", "chat"),
        ("0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f", "request-1"),
        ("a*b", "request-1"),
        ("two words", "request-1"),
        ("x" * 40, "request-1"),
    ],
)
def test_a_request_is_called_as_its_caller_did_if_that_reads_well(skeleton_of, name, called):
    loaded, _ = skeleton_of(Talk().add(0, name).row(0, name, 8, "length").frames, "0.33.0")
    assert loaded.scenario.steps[0].call.id == called
