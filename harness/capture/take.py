"""Plays stories on a target and keeps what passed at the engines, and the trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from client.protocol.profiles import RELEASES
from harness.capture.recording import Frame, Tape
from harness.play import PlaySpec, play
from harness.runner import cached_target, choose_profile, make_spec
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario
from harness.scenario.needs import needs
from harness.start_failures import ALIKE, start_failure
from harness.strategies import make_strategy
from harness.tape import Recorder as TapeRecorder
from harness.targets.base import StartFailed, TargetError
from harness.targets.request import TargetRequest
from harness.targets.target import Target
from harness.trace.jsonl import to_json
from harness.version import tool_version

STORIES_FOLDER = Path(__file__).parent / "stories"
"""The fixed set: small, one thing after the other, so that two runs differ in nothing."""
PLAYED = "played"
SKIPPED = "skipped"
FAILED = "failed"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Story:
    """One scenario as it went.

    Attributes:
        id: of the scenario.
        status: ``played``, ``skipped`` (the release or the target cannot) or ``failed`` (the
            target or the harness broke).
        reason: why it was not played to its end, else ``""``.
        release: profile that the engines spoke.
        frames: all messages at all engines, in order.
        events: the trace, one object for each event, as ``harness.trace.jsonl`` has them.
    """

    id: str
    title: str
    status: str
    reason: str
    release: str
    frames: tuple[Frame, ...] = ()
    events: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Capture:
    """Some stories on one frontend.

    Attributes:
        tool: version of this program.
        target: kind, such as ``vllm-rs``.
        version: of the target: a release, or what a build says of itself.
        notes: what the target says about itself, such as how its release was told.
    """

    tool: str
    target: str
    version: str
    notes: tuple[str, ...]
    stories: tuple[Story, ...]

    @property
    def title(self) -> str:
        """Name it for people."""
        return f"{self.target} {self.version}"


def builtin_stories() -> list[LoadedScenario]:
    """Load the fixed set, in the order of the file names."""
    found = [
        selection.Found(f"capture/{path.stem}", path)
        for path in selection.find_files(STORIES_FOLDER)
    ]
    return selection.load_all(found)


def take(
    stories: Sequence[LoadedScenario],
    request: TargetRequest,
    progress: Progress = lambda _line: None,
) -> Capture:
    """Play each story once and collect; a frontend that never gets ready is given up.

    Raises:
        TargetError, ValueError: the target cannot be opened (see ``open_target``).
        KeyboardInterrupt: interrupted; everything of the run has been released.
    """
    target = cached_target(request)
    info = target.info
    played: list[Story] = []
    starts: list[str | None] = []
    for number, one in enumerate(stories, start=1):
        if len(starts) == ALIKE and starts[0] is not None and len({*starts}) == 1:
            reason = f"the frontend never got ready in {ALIKE} starts, which failed alike"
            played.append(Story(one.id, one.scenario.title, SKIPPED, reason, request.profile or ""))
            continue
        progress(f"[{number}/{len(stories)}] {one.id}")
        story, start = _play(one, target, request)
        played.append(story)
        if story.status != SKIPPED and len(starts) < ALIKE:
            starts.append(start)
    # ``sim`` and ``zmq`` have the version of this program; what they speak says more.
    version = info.version if target.black_box else (request.profile or RELEASES[-1])
    notes = info.notes if target.black_box else ()
    return Capture(tool_version(), info.kind, version, notes, tuple(played))


def _play(one: LoadedScenario, target: Target, request: TargetRequest) -> tuple[Story, str | None]:
    """Play a story; how its frontend failed to start, where it did."""
    scenario = one.scenario
    story = Story(one.id, scenario.title, SKIPPED, "", request.profile or "")
    profile = choose_profile(target, scenario, request.profile)
    if profile is None:
        return replace(story, reason=f"applies to {scenario.profiles}"), None
    story = replace(story, release=profile.release)
    if missing := sorted(needs(scenario) - target.capabilities(profile)):
        return replace(story, reason=f"target lacks {', '.join(missing)}"), None
    if (why := target.unsupported(scenario, profile)) is not None:
        return replace(story, reason=why), None
    tape = Tape(profile)
    spec = replace(make_spec(scenario, target, profile, None), tap=tape.tap)
    try:
        events = _events(spec, target)
    except TargetError as error:
        failed = replace(story, status=FAILED, reason=str(error), frames=tuple(tape.frames()))
        return failed, start_failure(error) if isinstance(error, StartFailed) else None
    played = replace(story, status=PLAYED, frames=tuple(tape.frames()), events=tuple(events))
    return played, None


def _events(spec: PlaySpec, target: Target) -> list[dict[str, Any]]:
    """Play once; on a target whose order can be chosen, in the plainest one."""
    chooser = TapeRecorder(make_strategy("fifo", 0, 0)) if target.deterministic else None
    played = play(spec, target.world(chooser))
    if played.broke is not None:
        raise TargetError(played.broke)
    start = played.records[0].time_us if played.records else 0
    return [{**to_json(record), "time_us": record.time_us - start} for record in played.records]
