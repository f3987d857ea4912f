"""What ``wavecheck new`` can begin with: small scenarios that hold, one for each kind of story."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """A template, see the folder ``starts``.

    Attributes:
        name: of the file, and what ``--template`` takes.
        about: one line for the list.
        title, promise, ref: of the scenario, unless the user says other ones.
        profiles: releases to which it applies; ``""``: all.
        invariants: those that the file is about.
        mutant: a known bug that it shows; ``""``: none is known.
        engines: as many as it has, unless the user says another number.
        engines_min: as many as its story needs.
        takes: behaviours that may be asked for: ``hang``, ``fail``.
        targets: where it can be played.
    """

    name: str
    about: str
    title: str
    promise: str
    ref: str
    invariants: tuple[str, ...] = ()
    mutant: str = ""
    profiles: str = ""
    engines: int = 2
    engines_min: int = 2
    takes: frozenset[str] = frozenset()
    targets: tuple[str, ...] = ("sim", "zmq", "vllm-rs")


_VLLM = "https://github.com/vllm-project/vllm"
STARTS: Mapping[str, Start] = {
    start.name: start
    for start in (
        Start(
            "request",
            "a request streams to its end; --hang RANK:add holds it up",
            "A request is served by the rank that it asks for",
            "The caller gets every token of that engine, once and in order.",
            f"{_VLLM}/tree/main/rust/src/engine-core-client",
            ("request.outputs-own-only", "routing.explicit-rank"),
            "one-token-of-each-output",
            engines_min=1,
            takes=frozenset({"hang"}),
        ),
        Start(
            "utility",
            "an admin call reaches every engine; --hang and --fail say what they make of it",
            "A call reaches every engine",
            "It ends once every engine has answered.",
            "vllm#52671",
            engines_min=1,
            takes=frozenset({"hang", "fail"}),
        ),
        Start(
            "fan-out",
            "the same, with one engine that fails while another hangs",
            "",
            "",
            "vllm#52671",
            takes=frozenset({"hang", "fail"}),
        ),
        Start(
            "abort",
            "the reader of a stream leaves in its middle",
            "A stream that its reader leaves is aborted",
            "Exactly one ABORT reaches the engine that has the request, and no other engine.",
            "vllm#52671",
            ("request.every-add-ends",),
            "stream-dropped-without-abort",
        ),
        Start(
            "wave",
            "a request wakes the other engines, and their wave ends with it",
            "A wave lasts as long as one rank has work",
            "Ranks that were woken stay in the wave until the last request is over.",
            "vllm#45223",
            ("wave.ends-when-idle",),
            "first-request-never-told",
            engines=3,
        ),
        Start(
            "pause",
            "an engine refuses to pause, so engines disagree",
            "A pause that one engine refuses is told, and resume mends it",
            "The caller learns of the refusal, and no state is told on which engines disagree.",
            "vllm#52144",
            ("utility.aggregation",),
            "failures-left-out",
            profiles=">=0.24",
        ),
        Start(
            "lockstep",
            "engines that step together, as those of a mixture-of-experts model do",
            "Ranks step together, end a wave together, and rest",
            "No rank waits for one that has left, and all come to rest.",
            f"{_VLLM}/blob/v0.33.0/vllm/v1/engine/core.py",
            ("lockstep.no-rank-waits-alone", "lockstep.comes-to-rest", "lockstep.agrees-at-rest"),
            "current-wave-begun-in-silence",
        ),
        Start(
            "external",
            "an external coordinator publishes its state",
            "A request carries the wave of the last publish",
            "What the external coordinator published last is the wave that engines see.",
            "vllm#46833",
            ("wave.add-stamp-not-ahead",),
            "publish-read-one-wave-ahead",
            engines_min=1,
        ),
        Start(
            "health",
            "an engine dies while requests run",
            "A dying engine ends all work with one cause",
            "Every open request of every rank fails with that error, and health turns.",
            "vllm#24897",
            ("health.fails-all-open-work", "health.sticky-first"),
            "death-of-an-engine-ignored",
        ),
        Start(
            "startup",
            "an engine never subscribes, so startup must fail",
            "The gate stays shut while one engine has not subscribed",
            "No engine is let in, and startup ends with the stage that it waited for.",
            f"{_VLLM}/tree/main/rust/src/engine-core-client",
            ("handshake.gate-before-ready",),
            "gate-opens-at-the-first-subscription",
        ),
        Start(
            "routing",
            "requests without a rank go to the least loaded engine",
            "Without a rank the least loaded engine is chosen",
            "Requests in flight count; of equally loaded engines the smallest identity wins.",
            "vllm#47420",
            ("routing.score-matches",),
            "ties-to-the-last-engine",
        ),
        Start(
            "http",
            "calls over HTTP, one of them for a rank that does not exist",
            "A rank in the HTTP header that is not connected is refused",
            "The request fails, and no engine sees it.",
            "vllm#51178",
            ("routing.unconnected-rank-refused",),
            "unconnected-rank-looks-gone",
        ),
        Start(
            "frontend",
            "any HTTP requests; for a real frontend only",
            "A route that does not exist is told so",
            "What a frontend does not serve is answered with 404, and reaches no engine.",
            "vllm#44280",
            engines_min=1,
            targets=("vllm-rs",),
        ),
        Start(
            "scale",
            "an engine is added while the deployment runs",
            "A new engine serves requests once the change has ended",
            "The coordinator follows the change, and the new rank is served.",
            f"{_VLLM}/blob/v0.33.0/vllm/v1/engine/coordinator.py",
            ("elastic.coordinator-follows",),
            "new-engines-not-counted",
            profiles=">=0.27",
            engines=1,
            engines_min=1,
            targets=("sim", "zmq"),
        ),
    )
}
"""Templates by name, the plainest first."""
