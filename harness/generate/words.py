"""Which values mean something in a generated scenario, and what is not generated, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from client.protocol.profiles import RELEASES
from harness.generate import utilities
from harness.generate.fields import Hint, Hints, Key, Strategy, of_model, one_key, weighted
from harness.generate.refs import Ref, RefKind
from harness.scenario import model as scenario
from harness.targets.vllm_rs.grpc_messages import METHODS, short_name
from mock_engines.behaviours import model as behaviours

SURFACES = "surface."
ROUTES = (
    *("/health", "/metrics", "/v1/models", "/version", "/load", "/server_info", "/is_sleeping"),
    *("/ping", "/no/such/route"),
)
SPECIFIERS = ("", "<0.33", "<0.33", "<0.32", "<0.31", "<0.29", "<0.28", "<0.26", "<0.25", "<0.23")
"""Releases to which a scenario applies; it is played in the newest of them."""
# The wave after the last one of 32 bits fits no field, and a notice beyond them ends the coordinator
# and what it had just sent: both are known (docs/findings.md), and scenarios of their own.
WAVES = st.sampled_from([0, 0, 1, 1, 2, 3, 5, 2**31])
TOKENS = st.lists(st.sampled_from([7, 104, 65_535, 2**32 - 1]), max_size=3)
FRAMES = (
    *("text:ENGINE_CORE_DEAD", "00", "", "ff", "90", "json:[]", "json:[0]", "json:{}"),
    "text:noise",
)
"""Frames that are no message, or the engine's last word."""
RANK_TEXTS = (
    *(
        ["0"],
        ["1"],
        ["2"],
        [" 1 "],
        ["x"],
        ["-1"],
        ["65536"],
        ["65537"],
        ["4294967296"],
        ["1", "0"],
    ),
    [""],
)
"""Ranks as headers and metadata have them."""
KV: tuple[dict[str, Any], ...] = (
    {"a": 1},
    {"remote_engine_id": "x", "remote_block_ids": [1, 2]},
    {},
)


def ref(kind: RefKind, most: int = 3) -> Strategy:
    """Something that the rest of the scenario decides."""
    return st.integers(0, most).map(lambda n: Ref(kind, n))


def words(*choices: Any) -> Strategy:
    """One of these."""
    return st.sampled_from(list(choices))


EXCLUDED: Mapping[Key, str] = {
    (scenario.Step, "expect"): "a generated scenario claims nothing; the invariants judge it",
    (scenario.Step, "sample"): "nothing but an expectation reads it",
    (scenario.Step, "wait"): "only for what is sure to come (stages of drafts)",
    (scenario.Step, "connect"): "put in by `mending` where engines join late",
    (scenario.Step, "scale"): "needs one client, ranks from 0, and releases from 0.27 on",
    (scenario.Topology, "later"): "only a `scale` step starts them",
    (scenario.Topology, "engines"): "ranks are counted by `mending`",
    (scenario.Topology, "transport"): "follows from the coordinator and the frontends",
    (scenario.Topology, "data_parallel_size"): "follows from the ranks; config contradicts it",
    (scenario.Topology, "frontend_args"): "how a frontend is started is the user's to say",
    (scenario.Topology, "frontend_env"): "how a frontend is started is the user's to say",
    (scenario.Topology, "starved"): "a matter of time, and much of it",
    (scenario.ClientConfigSpec, "ready_timeout_s"): "given where engines stay away",
    (scenario.LoadStep, "until_quiet"): "in simulation it goes on for ever beside a timer",
    (scenario.Topology, "lockstep"): "drawn as a whole topology (lockstep)",
    (scenario.Topology, "engine_release"): "two releases that meet are a family of their own",
    (behaviours.Action, "shut_down"): "an engine that leaves lets its peers wait for ever",
    (behaviours.EngineSpec, "process"): "where an engine runs is decided by the target",
    (behaviours.Flood, "count_real"): "as many as anywhere: a generated scenario is short",
}
"""Not generated, and why."""
HEAD_EXCLUDED: Mapping[str, str] = {
    "format": "says nothing of the story",
    "title": "written when something was found",
    "promise": "written when something was found",
    "refs": "written when something was found",
    "invariants": "written when something was found",
    "known": "nothing is known of a scenario that nobody wrote",
    "needs": "derived from the content",
    "trials": "whether something is a race is not known beforehand",
    "connect_fails": "given where engines stay away or sizes contradict each other",
    "explore": "in a story that nobody thought of any order may matter",
    "open_at_end": "what may never end is left by its caller, so that everything is judged",
}
"""Keys of a scenario's head that a draft does not draw, and why."""


def gate() -> Strategy:
    """A gate to wait at."""
    return ref("new-gate", 2)


def number(*choices: int) -> Hint:
    """A number that is seldom given."""
    return Hint(words(*choices))


INDEX = number(0, 1, 77, 65_536, 2**32 - 1)
"""Indices that engines stamp; more than 32 bits no message carries, and none reads."""
FIELDS: dict[Key, Hint] = {
    # --- topology -----------------------------------------------------------------------------
    (scenario.Topology, "start_rank"): Hint(words(1, 2, 255, 256, 300), "seldom"),
    (scenario.Topology, "ranks"): Hint(
        words([0, 2], [1, 0], [3, 256], [255, 256], [256, 1], [0, 65_535], [2, 1, 0]), "seldom"
    ),
    (scenario.Topology, "waves"): Hint(words("auto", "script"), "often"),
    (scenario.Topology, "frontends"): Hint(words(1, 2), "seldom"),
    # --- steps --------------------------------------------------------------------------------
    (scenario.CallStep, "id"): Hint(ref("new-call", 0)),
    (scenario.CallStep, "rank"): Hint(ref("wanted-rank", 7), "often"),
    (scenario.CallStep, "rank_text"): Hint(words(*RANK_TEXTS)),
    (scenario.CallStep, "max_tokens"): Hint(words(1, 2, 4, 6), "often"),
    (scenario.CallStep, "request_id"): Hint(ref("call-id", 1)),
    (scenario.CallStep, "prompt"): Hint(st.lists(words(1, 104, 105, 200), min_size=1, max_size=3)),
    (scenario.CallStep, "kv_transfer_params"): Hint(words(*KV)),
    (scenario.CallStep, "body"): Hint(words({"temperature": 0.5}, {"n": 1})),
    (scenario.CallStep, "headers"): Hint(words({"x-a": "b"})),
    (scenario.CallStep, "aux"): Hint(words(["00"], ["00ff", ""])),
    (scenario.CallStep, "read"): Hint(gate()),
    (scenario.CallStep, "unencodable"): Hint(words(True)),
    (scenario.CallStep, "frontend"): Hint(ref("frontend", 1)),
    (scenario.HttpStep, "id"): Hint(ref("new-request", 0)),
    (scenario.HttpStep, "path"): Hint(words(*ROUTES)),
    (scenario.HttpStep, "verb"): Hint(words("GET", "POST", "PUT", "DELETE", "OPTIONS")),
    (scenario.HttpStep, "headers"): Hint(words({"x-a": "b"})),
    (scenario.HttpStep, "connections"): number(2, 8),
    (scenario.HttpStep, "repeat"): number(2, 1_000),
    (scenario.HttpStep, "read"): Hint(gate()),
    (scenario.GrpcStep, "id"): Hint(ref("new-request", 0)),
    (scenario.GrpcStep, "method"): Hint(
        words(*(short_name(name) for name in METHODS if "Shutdown" not in name))
    ),
    (scenario.GrpcStep, "request"): Hint(words({})),
    (scenario.GrpcStep, "wire"): Hint(words("", "00", "0a01", "ffff")),
    (scenario.GrpcStep, "metadata"): Hint(words({"x-a": "b"})),
    (scenario.CrowdStep, "id"): Hint(ref("new-crowd", 0)),
    (scenario.CrowdStep, "callers"): Hint(words(1, 2, 4, 6), "always"),
    (scenario.CrowdStep, "simulated"): number(1, 3),
    (scenario.CrowdStep, "at_once"): number(1, 2, 4),
    (scenario.CrowdStep, "leave"): Hint(share="often"),
    (scenario.CrowdStep, "spread_ms"): Hint(words(0.0, 1.0)),
    (scenario.CrowdStep, "rank"): Hint(ref("rank")),
    (scenario.CrowdStep, "max_tokens"): number(1, 3),
    (scenario.CrowdStep, "prompt"): Hint(st.lists(words(1, 104), min_size=1, max_size=2)),
    (scenario.LoadStep, "clients"): Hint(words(1, 2), "always"),
    (scenario.LoadStep, "requests"): Hint(words(1, 2, 4), "always"),
    (scenario.Step, "cancel"): Hint(ref("open-op")),
    (scenario.Step, "drop"): Hint(ref("open-call")),
    (scenario.Step, "abort"): Hint(st.lists(ref("open-call"), min_size=1, max_size=2)),
    (scenario.Step, "finish"): Hint(st.lists(ref("open-op"), min_size=1, max_size=2)),
    (scenario.Step, "open"): Hint(ref("closed-gate")),
    (scenario.EngineStep, "engine"): Hint(ref("rank-or-all"), "always"),
    (scenario.EngineStep, "background"): Hint(words(True)),
    (scenario.EngineStep, "rejoin"): Hint(words(True)),
    (scenario.LinkStep, "engine"): Hint(ref("rank-or-coordinator", 5), "always"),
    (scenario.LinkStep, "frames"): Hint(share="often"),
    (scenario.LinkStep, "hold"): Hint(gate(), "often"),
    (scenario.LinkStep, "hold_after"): Hint(gate()),
    (scenario.LinkStep, "fail"): Hint(words("the send was refused")),
    (scenario.LinkStep, "clear"): Hint(words(True)),
    (scenario.CoordinatorStep, "stop"): Hint(words(True)),
    (scenario.CoordinatorStep, "start"): Hint(words(True)),
    (scenario.CoordinatorStep, "publish"): Hint(
        st.tuples(words(None, [[1, 0], [0, 0]], []), WAVES, st.booleans()).map(list)
    ),
    (scenario.CoordinatorStep, "publish_raw"): Hint(words(["93c00ac2"], ["93c0"], ["ff"], [""])),
    (scenario.ShutdownStep, "timeout_s"): Hint(words(0.0, 1.0), "often"),
    # --- behaviours ---------------------------------------------------------------------------
    (behaviours.EngineSpec, "engine"): Hint(ref("rank-or-all"), "always"),
    (behaviours.Join, "gate"): Hint(gate(), "often"),
    (behaviours.Join, "hello_times"): number(0, 2),
    (behaviours.Join, "register_times"): number(0, 2),
    (behaviours.Join, "subscribe_times"): number(0, 2),
    (behaviours.Join, "identity"): Hint(words("0000", "0100", "ffff", "00", "010000")),
    (behaviours.Join, "ready"): Hint(words({"max_model_len": 128}, {"unknown": 1}, {"dtype": 7})),
    (behaviours.Join, "ready_without"): Hint(words(["dtype"], ["max_model_len"])),
    (behaviours.Join, "ready_raw"): Hint(words("", "c0", "80", "ff")),
    (behaviours.Join, "hello_raw"): Hint(words(["00"], ["json:{}"], ["text:HELLO"])),
    (behaviours.Join, "subscribe_raw"): Hint(words(["00"], ["01"], ["text:noise"])),
    (behaviours.Rule, "request"): Hint(ref("request")),
    (behaviours.Rule, "method"): Hint(st.lists(ref("called-method"), min_size=1, max_size=2)),
    (behaviours.Rule, "nth"): number(1, 2, 3),
    (behaviours.Rule, "times"): number(1, 2),
    (behaviours.Action, "reply"): Hint(
        words(True, False, True, False, False, None, 1, "a", [], [1], [None])
    ),
    (behaviours.Action, "fail"): Hint(words("boom", "no", "")),
    (behaviours.Action, "hang"): Hint(weighted([(5, gate()), (1, words(True))])),
    (behaviours.Action, "stall"): Hint(gate()),
    (behaviours.Action, "delay_ms"): Hint(words(0, 1, 20)),
    (behaviours.Action, "open"): Hint(ref("closed-gate")),
    (behaviours.Action, "wave_complete"): Hint(st.deferred(lambda: notices())),
    (behaviours.Action, "start_wave"): Hint(st.deferred(lambda: notices())),
    (behaviours.Stream, "tokens"): Hint(words(0, 1, 3, 5), "often"),
    (behaviours.Stream, "chunk"): number(1, 2, 3),
    (behaviours.Stream, "finish"): Hint(share="often"),
    (behaviours.Stream, "stop_reason"): Hint(words(7, "stop", None)),
    (behaviours.Stream, "pause_at"): Hint(words(0, 1, 2), "often"),
    (behaviours.Stream, "gate"): Hint(gate(), "always"),
    (behaviours.Stream, "kv_transfer_params"): Hint(words(*KV)),
    (behaviours.Stream, "error"): Hint(words({"code": "x", "message": "m", "retryable": True})),
    (behaviours.Output, "request"): Hint(ref("request"), "often"),
    (behaviours.Output, "tokens"): Hint(TOKENS, "often"),
    (behaviours.Output, "finish"): Hint(share="often"),
    (behaviours.Output, "logprobs"): number(0, 2),
    (behaviours.Output, "prompt_logprobs"): Hint(words([], [1, 2])),
    (behaviours.Output, "stop_reason"): Hint(words(7, "stop")),
    (behaviours.Output, "kv_transfer_params"): Hint(words(*KV)),
    (behaviours.Output, "rows"): number(2, 3),
    (behaviours.Output, "finished"): Hint(words(1, 1, 2), "often"),
    (behaviours.Output, "times"): number(2, 3),
    (behaviours.ReplyWith, "value"): Hint(words(True, False, None, 1, "a", [], [1]), "often"),
    (behaviours.ReplyWith, "failure"): Hint(words("boom")),
    (behaviours.ReplyWith, "call_id"): number(0, 1, 2, 1_000),
    (behaviours.ReplyWith, "add_to_call_id"): number(1, 2, 1_000),
    (behaviours.ReplyWith, "list_of"): number(0, 2),
    (behaviours.ReplyWith, "times"): number(2, 3),
    (behaviours.Stats, "running"): Hint(words(0, 1, 3, 10), "always"),
    (behaviours.Stats, "waiting"): Hint(words(0, 1, 9), "often"),
    (behaviours.Stats, "step"): number(1, 2, 2**31),
    (behaviours.Raw, "frames"): Hint(st.lists(words(*FRAMES), min_size=1, max_size=2)),
    (behaviours.Raw, "times"): number(2),
    (behaviours.Notice, "wave"): Hint(WAVES, "often"),
    (behaviours.Output, "engine_index"): INDEX,
    (behaviours.ReplyWith, "engine_index"): INDEX,
    (behaviours.Stats, "engine_index"): INDEX,
    (behaviours.Notice, "engine_index"): INDEX,
    (behaviours.Flood, "count"): Hint(words(2, 5, 12), "always"),
    (behaviours.Flood, "start"): number(0, 1, 3),
    (behaviours.Flood, "start_wave_every"): number(1, 2, 4),
}


def notices() -> Strategy:
    """A wave, or a notice of its own form."""
    return weighted([(4, WAVES), (1, of_model(behaviours.Notice, HINTS))])


HINTS: Hints = Hints(
    fields=FIELDS,
    models={
        scenario.UtilityStep: utilities.step(ref("new-utility", 0), ref("frontend", 1)),
        scenario.CoordinatorStep: st.deferred(lambda: one_key(scenario.CoordinatorStep, HINTS)),
    },
    excluded=EXCLUDED,
)
"""Everything that is known of single fields."""


def hints_with(model: type[BaseModel], name: str, values: Strategy) -> Hints:
    """What is known, with other values for one field, which is always given."""
    fields = dict(FIELDS)
    fields[model, name] = Hint(values, "always")
    return Hints(fields, HINTS.models, HINTS.excluded)


def specifiers(release: str | None) -> list[str]:
    """Specifiers of releases, those that a fixed release does not fit left out."""
    return [""] if release is not None else list(SPECIFIERS)


assert RELEASES  # the specifiers above name releases that this version knows
