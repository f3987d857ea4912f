"""The pure engine: rules, requests, and a state machine against a small model."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from client.protocol.ids import FENCE_METHOD, CallId
from client.protocol.messages import EngineCoreRequest, FinishReason, StartDpWave, UtilityCall
from client.protocol.profiles import profile_for
from mock_engines import events
from mock_engines.behaviours.model import Rule
from mock_engines.engine import KEPT_REQUESTS_MAX, MockEngine, is_fence
from mock_engines.tokens import tokens_for

PROFILE = profile_for("0.33.0")


def engine(*rules, on_change=lambda: None):
    return MockEngine(0, PROFILE, [Rule.model_validate(r) for r in rules], on_change)


def request(name, wave=0, **params):
    return EngineCoreRequest(
        request_id=f"cmpl-{name}-0123abcd",
        external_req_id=f"cmpl-{name}",
        sampling_params=params or None,
        current_wave=wave,
    )


def add(mock, name, wave=0, **params):
    wanted = request(name, wave, **params)
    return mock.accept(wanted, mock.match(wanted))


def utility(method, *args):
    return UtilityCall(0, CallId(1), method, list(args))


def marked(plan):
    """The gate of the plan's first action: names the rule in these tests."""
    return plan.actions[0].open


@pytest.mark.parametrize(
    "pattern",
    ["a", "cmpl-a", "cmpl-a-0123abcd", "a-0123abcd".replace("a-", "cmpl-a-"), "?", "cmpl-*"],
)
def test_rule_matches_a_request_by_any_of_its_names(pattern):
    mock = engine({"on": "add", "request": pattern, "do": [{"open": "hit"}]})
    assert marked(add(mock, "a")) == "hit"


def test_rule_for_another_request_or_kind_does_not_match():
    mock = engine({"on": "add", "request": "b", "do": [{"open": "hit"}]})
    assert add(mock, "a").rule is None
    assert mock.abort(["cmpl-b-0123abcd"]).rule is None


def test_abort_rule_matches_the_external_name_of_a_request_seen_before():
    mock = engine({"on": "abort", "request": "b", "do": [{"open": "hit"}]})
    add(mock, "b")
    assert marked(mock.abort(["cmpl-x-0123abcd", "cmpl-b-0123abcd"])) == "hit"


def test_utility_rule_matches_one_of_several_methods_and_patterns():
    mock = engine({"on": "utility", "method": ["sleep", "reset_*"], "do": [{"open": "hit"}]})
    plans = [mock.utility_call(utility(m)) for m in ("sleep", "reset_mm_cache", "wake_up")]
    assert [plan.rule for plan in plans] == [0, 0, None]


def test_nth_takes_one_message_and_times_the_first_few_and_others_fall_through():
    mock = engine(
        {"on": "utility", "nth": 2, "do": [{"open": "second"}]},
        {"on": "utility", "times": 2, "do": [{"open": "first two"}]},
        {"on": "utility", "do": [{"open": "rest"}]},
    )
    hits = [marked(mock.utility_call(utility("sleep"))) for _ in range(5)]
    assert hits == ["first two", "second", "first two", "rest", "rest"]


def test_start_wave_rule_matches_every_broadcast():
    mock = engine({"on": "start_wave", "do": [{"drop": True}]})
    assert mock.start_wave(StartDpWave(3, 0)).rule == 0


@pytest.mark.parametrize(
    ("where", "hits"),
    [
        ({}, True),
        ({"wave": 3}, True),
        ({"wave": 3, "exclude": 1}, True),
        ({"wave": 4}, False),
        ({"wave": 3, "exclude": None}, False),
        ({"wave": "3"}, False),
    ],
)
def test_rule_matches_when_every_field_that_it_names_is_equal(where, hits):
    mock = engine({"on": "start_wave", "where": where, "do": [{"drop": True}]})
    plan = mock.start_wave(StartDpWave(3, 1), events.StartWaveSeen(0, 3, 1))
    assert (plan.rule == 0) is hits


def test_list_in_a_rule_equals_a_tuple_in_an_event():
    rule = {"on": "abort", "where": {"request_ids": ["a", "b"]}, "do": [{"drop": True}]}
    mock = engine(rule)
    assert mock.abort(["a", "b"], events.AbortSeen(0, ("a", "b"))).rule == 0
    assert mock.abort(["a"], events.AbortSeen(0, ("a",))).rule is None


def test_dropped_add_leaves_no_request_and_no_wave():
    mock = engine({"on": "add", "do": [{"drop": True}, {"open": "g"}]})
    plan = add(mock, "a", wave=4)
    assert plan.message.request is None
    assert (mock.active(), mock.wave) == ((), 0)


def test_accepted_add_is_active_and_raises_the_wave():
    changes = []
    mock = engine(on_change=lambda: changes.append(1))
    plan = add(mock, "a", wave=4, max_tokens=7)
    assert mock.active() == (plan.message.request,)
    assert plan.message.request.max_tokens == 7
    assert (mock.wave, changes) == (4, [1])
    assert mock.view()["requests"] == ["a"]


def test_max_tokens_has_the_default_of_the_engine():
    assert add(engine(), "a").message.request.max_tokens == 16


def test_step_continues_the_stream_where_it_was():
    mock = engine()
    active = add(mock, "a").message.request
    rows = [mock.step(active, 2), mock.step(active, 3, FinishReason.STOP, 9)]
    tokens = rows[0].new_token_ids + rows[1].new_token_ids
    assert tokens == tokens_for("a", start=0, count=5)
    assert (rows[1].finish_reason, rows[1].stop_reason) == (FinishReason.STOP, 9)


def test_request_is_found_by_every_name_active_before_ended():
    mock = engine()
    old = add(mock, "a").message.request
    mock.finish(old)
    assert mock.find("a") is mock.find("cmpl-a") is mock.find("cmpl-a-0123abcd") is old
    new = add(mock, "a").message.request
    assert mock.find("a") is new
    assert mock.find("b") is None


def test_finish_of_an_old_request_leaves_its_successor_alone():
    mock = engine()
    old = add(mock, "a").message.request
    new = add(mock, "a").message.request
    mock.finish(old)
    assert mock.active() == (new,)


def test_abort_ends_active_ones_and_ignores_the_rest():
    mock = engine()
    add(mock, "a")
    add(mock, "b")
    ids = ["cmpl-a-0123abcd", "unknown", "cmpl-a-0123abcd"]
    assert mock.abort_now(ids) == ("cmpl-a-0123abcd",)
    assert mock.view()["requests"] == ["b"]


def test_ended_requests_are_forgotten_beyond_a_bound():
    mock = engine()
    for number in range(KEPT_REQUESTS_MAX + 1):
        mock.finish(add(mock, f"r{number}").message.request)
    assert mock.find("r0") is None
    assert mock.find("r1") is not None


def test_pause_holds_new_requests_and_keep_freezes_running_ones():
    mock = engine()
    running, queued = add(mock, "a").message.request, add(mock, "b").message.request
    mock.begin(running)
    mock.apply(utility("pause_scheduler", "wait"))
    assert (mock.may_step(running), mock.may_step(queued)) == (True, False)
    assert (mock.unfinished, mock.drained) == (True, False)
    mock.apply(utility("pause_scheduler", "keep"))
    assert not mock.may_step(running)
    assert not mock.unfinished
    mock.apply(utility("resume_scheduler"))
    assert mock.may_step(queued)


def test_rejection_is_for_new_requests_of_a_rejecting_pause_only():
    mock = engine()
    old = add(mock, "a").message.request
    mock.begin(old)
    assert mock.rejection(old) is None
    mock.apply(utility("pause_generation", "wait"))
    new = add(mock, "b").message.request
    assert mock.rejection(old) is None
    row = mock.rejection(new)
    assert (row.finish_reason, row.error.code) == (FinishReason.ERROR, "engine_paused")
    assert row.error.retryable


def test_start_wave_is_taken_over_unless_stale_or_excluded():
    mock = engine()
    mock.apply_start_wave(StartDpWave(5, 1))
    mock.apply_start_wave(StartDpWave(9, 0))
    mock.apply_start_wave(StartDpWave(3, None))
    assert mock.wave == 5
    mock.completed(5)
    mock.completed(2)
    assert mock.wave == 6


def test_fence_is_recognised_as_method_and_as_collective_rpc():
    assert is_fence(utility(FENCE_METHOD))
    assert is_fence(utility("collective_rpc", FENCE_METHOD, None, [], {}))
    assert not is_fence(utility("collective_rpc", "other"))
    assert not is_fence(utility("collective_rpc"))
    assert not is_fence(utility("sleep", FENCE_METHOD))


NAMES = st.sampled_from(["a", "b", "c"])


class EngineMachine(RuleBasedStateMachine):
    """Any order of adds, steps, aborts, pauses and adapters, against dicts."""

    @initialize()
    def begin(self):
        self.changes = 0
        self.mock = MockEngine(0, PROFILE, (), self.count)
        self.sent = {}
        self.started = {}
        self.loras = set()
        self.paused = None
        self.wave = 0

    def count(self):
        self.changes += 1

    @rule(name=NAMES, wave=st.integers(0, 5))
    def add(self, name, wave):
        add(self.mock, name, wave=wave)
        self.sent.pop(name, None)
        self.sent[name], self.started[name] = 0, False
        self.wave = max(self.wave, wave)

    @rule(name=NAMES, count=st.integers(0, 3))
    def step(self, name, count):
        found = self.mock.find(name)
        if name not in self.sent or not self.mock.may_step(found):
            return
        self.mock.begin(found)
        row = self.mock.step(found, count)
        assert row.new_token_ids == tokens_for(name, start=self.sent[name], count=count)
        self.sent[name] += count
        self.started[name] = True

    @rule(name=NAMES)
    def finish(self, name):
        if name in self.sent:
            self.mock.finish(self.mock.find(name))
            del self.sent[name]

    @rule(names=st.lists(NAMES, max_size=3))
    def abort(self, names):
        ended = self.mock.abort_now([f"cmpl-{name}-0123abcd" for name in names])
        expected = [name for name in dict.fromkeys(names) if name in self.sent]
        assert list(ended) == [f"cmpl-{name}-0123abcd" for name in expected]
        for name in expected:
            del self.sent[name]

    @rule(mode=st.sampled_from(["abort", "wait", "keep", None]))
    def pause(self, mode):
        before = self.changes
        if mode is None:
            self.mock.apply(utility("resume_scheduler"))
            self.paused = None
        else:
            self.mock.apply(utility("pause_scheduler", mode))
            self.paused = "all" if mode == "keep" else "new"
        assert self.changes == before + 1

    @rule(number=st.integers(1, 4), add_it=st.booleans())
    def adapters(self, number, add_it):
        if add_it:
            assert self.mock.apply(utility("add_lora", ["x", number, "/p"])).value is True
            self.loras.add(number)
        else:
            outcome = self.mock.apply(utility("remove_lora", number))
            assert outcome.value is (number in self.loras)
            self.loras.discard(number)

    @invariant()
    def state_equals_the_model(self):
        if not hasattr(self, "mock"):
            return
        view = self.mock.view()
        assert view["requests"] == list(self.sent)
        assert view["loras"] == sorted(self.loras)
        assert view["wave"] == self.wave
        assert view["paused"] is (self.paused is not None)
        runs = [
            name
            for name in self.sent
            if self.paused is None or (self.paused == "new" and self.started[name])
        ]
        assert self.mock.unfinished is bool(runs)
        assert self.mock.drained is not any(self.started[name] for name in self.sent)


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
