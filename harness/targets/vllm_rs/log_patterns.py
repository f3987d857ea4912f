"""Reads the frontend's log: one table of line beginnings for each release, and their fields.

A line is ``(RustFrontend pid=N) LEVEL MM-DD HH:MM:SS [file:line] [span{…}: ]message key=value …``,
on stdout up to 0.24 and on stderr later. Process id and time are left out of events, so that
two runs can be compared. A line that begins with nothing of its release's table is kept as text.

Source: the texts in the released binaries 0.22.0 … 0.33.0; ``tests/vllm_rs`` looks for each one in
each binary that is there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from harness.targets.vllm_rs.releases import RELEASES, at_least
from harness.trace.events import LogLine

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LINE = re.compile(
    r"^\([A-Za-z]+ pid=\d+\)\s+(?P<level>TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR)\s+"
    r"\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\s+\[(?P<place>[^\]]*)\]\s?(?P<text>.*)$"
)
_SPAN = re.compile(
    r"^(?:[A-Za-z_][\w.]*\{(?:[^{}\"]|\"(?:[^\"\\]|\\.)*\"|\{[^{}]*\})*\}:?)+\s*:?\s*"
)
_ENGINE_ID = re.compile(r"EngineId\(([0-9a-fA-F]*)\)")
TEXT_MAX = 2000
"""Longer messages (dumps of undecodable values) are cut to this many characters."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of line. ``begins``: its text after spans; ``fields``: values worth keeping.

    ``since`` and ``until`` (inclusive) are the releases whose binary holds the text.
    """

    id: str
    begins: str
    fields: tuple[str, ...] = ()
    since: str = "0.22.0"
    until: str | None = None


PATTERNS: tuple[Pattern, ...] = (
    # startup
    Pattern("coordinator-mode", "resolved coordinator mode", ("coordinator_mode", "model_is_moe")),
    Pattern("hello", "received HELLO from engine", ("engine_id",)),
    Pattern("init-sent", "sent INIT to engine", ("engine_id",)),
    Pattern("ready-early", "received overlapping READY from engine", ("engine_id",)),
    Pattern("ready", "received READY from engine", ("engine_id",)),
    Pattern("registration", "received input registration from engine", ("actual_id",)),
    Pattern("registered-all", "all engines registered", ("engine_count",)),
    Pattern("engines-connected", "engines connected", ("engine_count",)),
    Pattern("http-starting", "starting OpenAI server", until="0.26.0"),
    Pattern("http-ready", "OpenAI server is ready to accept requests", since="0.27.0"),
    Pattern("grpc-starting", "starting gRPC server", until="0.26.0"),
    Pattern("grpc-ready", "gRPC server is ready to accept requests", since="0.27.0"),
    # requests
    Pattern("request-registered", "registered request to engine", ("request_id", "engine_id")),
    Pattern("request-completed", "request completed via final output", ("request_id",)),
    Pattern("request-error", "request failed with an internal error", ("request_id",)),
    Pattern("stream-closed", "request stream closed unexpectedly", ("request_id",)),
    Pattern("stream-error", "request encountered an error", ("request_id", "error")),
    Pattern("auto-abort", "auto-aborting request due to dropped stream", ("request_id",)),
    Pattern("stop-string-abort", "auto-aborting request due to stop string", ("request_id",)),
    Pattern("auto-abort-skipped", "skip auto-abort for inactive request", ("request_id",)),
    Pattern(
        "auto-abort-failed",
        "failed to auto-abort dropped request stream",
        ("error",),
        until="0.22.1",
    ),
    Pattern(
        "auto-abort-failed",
        "failed to auto-abort request streams",
        ("error",),
        since="0.23.0",
    ),
    Pattern("finished-ids", "request completed via finished_requests", ("request_id",)),
    Pattern("stats-dropped", "dropping scheduler stats for"),
    Pattern("output-dropped", "dropping output for inactive request", ("request_id",)),
    # utilities
    Pattern("utility-dropped", "dropping output for unexpected utility call", ("call_id",)),
    # waves
    Pattern("wave-finished", "DP wave finished; pausing engines", ("wave", "current_wave")),
    Pattern(
        "wave-first-request",
        "starting DP wave after first request",
        ("wave", "current_wave", "target_engine"),
        until="0.32.0",
    ),
    Pattern(
        "wave-started-stale",
        "starting DP wave after stale-wave notification",
        ("wave", "engine_index"),
        until="0.32.0",
    ),
    Pattern(
        "wave-started",
        "starting DP wave on notification from engine",
        ("wave", "engine_index"),
        since="0.33.0",
    ),
    Pattern("wave-replayed", "replaying active DP wave", ("wave",), since="0.32.0"),
    Pattern("subscription-lost", "coordinator subscription peer disconnected", since="0.32.0"),
    Pattern(
        "external-update",
        "applied external coordinator state update",
        ("wave", "engines_running"),
    ),
    Pattern(
        "external-first-request",
        "notifying external coordinator about first request",
        ("wave", "exclude_engine_index"),
        until="0.32.0",
    ),
    # failure and end
    Pattern("engine-dead", "received ENGINE_CORE_DEAD sentinel"),
    Pattern("dispatcher-failed", "output dispatcher exiting with error", ("error",)),
    Pattern("coordinator-failed", "coordinator runner exiting with error", ("error",)),
    Pattern("external-failed", "external coordinator service exiting with error", ("error",)),
    Pattern("grpc-not-serving", "marking gRPC health services as not serving", since="0.27.0"),
    Pattern("signal", "received shutdown signal"),
    Pattern("drain-deadline", "shutdown deadline elapsed"),
    Pattern("client-closing", "shutting down engine-core client"),
    Pattern("client-closed", "engine-core client shut down"),
    Pattern("process-failed", "process failed with error", ("error",), since="0.27.0"),
)
OTHER = "other"
_TO_THE_END = frozenset({"error"})


@cache
def patterns_of(release: str) -> tuple[Pattern, ...]:
    """Return the table of one release.

    A release is in the range of a pattern by its place among those known, so that a later one has
    the table of the newest.
    """
    newest = RELEASES[-1]

    def last(pattern: Pattern) -> str:
        return newest if pattern.until is None else pattern.until

    known = newest if at_least(release, newest) else release
    return tuple(
        pattern
        for pattern in PATTERNS
        if at_least(known, pattern.since) and at_least(last(pattern), known)
    )


def parse_line(line: str, patterns: Sequence[Pattern] = PATTERNS) -> LogLine:
    """Turn one line of the log into an event; what matches no pattern is ``other``.

    Lines without the usual head (a panic, a backtrace, a usage text) have level ``""``.
    """
    plain = _ANSI.sub("", line).rstrip("\r\n")
    head = _LINE.match(plain)
    if head is None:
        return LogLine("", OTHER, (), plain[:TEXT_MAX])
    level = "WARN" if head["level"] == "WARNING" else head["level"]
    text = head["text"]
    message = _SPAN.sub("", text, count=1)
    for pattern in patterns:
        if message.startswith(pattern.begins):
            return LogLine(level, pattern.id, _fields(message, pattern), text[:TEXT_MAX])
    return LogLine(level, OTHER, (), text[:TEXT_MAX])


def field(line: LogLine, name: str) -> str | None:
    """Return one field of an event."""
    return dict(line.fields).get(name)


def _fields(message: str, pattern: Pattern) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for name in pattern.fields:
        if (value := _value(message, name)) is None:
            continue
        if (identity := _ENGINE_ID.fullmatch(value)) is not None:
            raw = bytes.fromhex(identity[1])
            found["identity"] = identity[1].lower()
            if len(raw) == 2:
                found["engine"] = str(int.from_bytes(raw, "little"))
        else:
            found[name] = value
    return tuple(sorted(found.items()))


def _value(message: str, name: str) -> str | None:
    """Return the value behind ``name=``; ``self.name=`` counts too."""
    match = re.search(rf"(?:^|[\s.]){re.escape(name)}=", message)
    if match is None:
        return None
    rest = message[match.end() :]
    if name in _TO_THE_END:
        return rest
    quoted = re.match(r'"((?:[^"\\]|\\.)*)"', rest)
    if quoted is not None:
        return quoted[1]
    return re.split(r"\s", rest, maxsplit=1)[0]


def strip_colours(line: str) -> str:
    """Remove ANSI colour sequences."""
    return _ANSI.sub("", line)
