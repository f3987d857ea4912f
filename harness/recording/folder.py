"""What a recording becomes: a folder with the messages, golden vectors and a scenario."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

from client.protocol.profiles import PROFILES, profile_for
from harness.capture import file as capture_file
from harness.capture.kinds import kind_of_frame
from harness.capture.take import Capture, Story
from harness.capture.vector_choice import choose
from harness.capture.vectors import documents, text_of
from harness.files import write_text
from harness.recording.redaction import MARK
from harness.recording.release import ReleaseGuess
from harness.recording.skeleton import SCHEMA, Skeleton
from harness.reports.wording import counted
from harness.scenario.loader import builtin_dir, parse, scenario_id

FRAMES = "frames.jsonl"
GOLDEN = "golden"
SCENARIO = "scenario.yaml"


@dataclass(slots=True)
class Made:
    """What was made.

    Attributes:
        release: whose forms the messages have.
        why: how that is known.
        kinds: how many messages of each kind there are.
        vectors: golden vectors.
        steps: of the scenario.
        notes: what was seen and is not in the scenario.
    """

    release: str
    why: str
    messages: int
    seconds: float
    ranks: tuple[int, ...]
    kinds: dict[str, int] = field(default_factory=dict)
    vectors: int = 0
    steps: int = 0
    notes: list[str] = field(default_factory=list)


def make(folder: Path, frames_file: Path, *, release: str | None, why: str, redacted: bool) -> Made:
    """Make golden vectors and scenario out of a capture, into ``folder``.

    Args:
        folder: is there.
        frames_file: a capture with one story.
        release: ``None``: the one that stands in the file, else what its messages tell.
        why: how the release is known, if it is.
        redacted: the messages are not what passed.

    Raises:
        CaptureFileError: the capture cannot be read, or has no story.
        OSError: a file cannot be written.
        ScenarioFileError: what is in it makes no valid scenario. Nothing is made then.
    """
    capture = capture_file.read_file(frames_file)
    if not capture.stories:
        msg = f"{frames_file}: there is no story in it"
        raise capture_file.CaptureFileError(msg)
    story = max(capture.stories, key=lambda one: len(one.frames))
    known = release or story.release
    if known not in PROFILES:
        guess = ReleaseGuess()
        for frame in story.frames:
            guess.take(frame)
        known, why = guess.release, guess.why
    story = replace(story, release=known)
    made = Made(known, why, len(story.frames), _seconds(story), ())
    for frame in story.frames:
        name = kind_of_frame(frame).name
        made.kinds[name] = made.kinds.get(name, 0) + 1
    skeleton = Skeleton(story.frames, profile_for(known))
    made.ranks, made.steps, made.notes = skeleton.ranks, skeleton.steps, skeleton.notes()
    told = [
        f"Recorded by wavecheck {capture.tool}: {counted(len(story.frames), 'message')},"
        f" release {known} ({why}).",
        *(f"The file says: {note}." for note in capture.notes),
    ]
    text = skeleton.text(told)
    parse(text, folder / SCENARIO, name=scenario_id(folder / SCENARIO))
    made.vectors = _golden(folder / GOLDEN, capture, story, redacted=redacted)
    shutil.copyfile(builtin_dir() / SCHEMA, folder / SCHEMA)
    write_text(folder / SCENARIO, text)
    return made


def _seconds(story: Story) -> float:
    return story.frames[-1].time_us / 1_000_000 if story.frames else 0.0


def _golden(folder: Path, capture: Capture, story: Story, *, redacted: bool) -> int:
    """Write the vectors, one file for each kind; returns how many there are."""
    version = f"{story.release} ({MARK})" if redacted else story.release
    vectors = choose([replace(capture, version=version, stories=(story,))])
    if vectors:
        folder.mkdir(exist_ok=True)
    for kind, document in documents(vectors).items():
        write_text(folder / f"{kind}.json", text_of(document))
    return len(vectors)
