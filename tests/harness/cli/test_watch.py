"""``wavecheck watch``: what is played when, with which words; and once for real."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.authoring import noticing, rerunning
from harness.authoring.noticing import CannotWatchError, Spot
from harness.cli import watch_cmd
from harness.cli.run_cmd import run_command
from harness.cli.watch_cmd import Watch, watch_command
from harness.scenario.loader import builtin_dir

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke

ROOT = Path(__file__).parents[3]
WAIT_S = 90.0
"""A net under what takes a second or two."""
SAVED = frozenset


class Played:
    """Stands for runs in new processes."""

    def __init__(self, *codes: int) -> None:
        self.calls: list[tuple[list[str], bool]] = []
        self._codes = list(codes)

    def __call__(self, words: Sequence[str], *, compact: bool) -> int:
        self.calls.append((list(words), compact))
        return self._codes.pop(0) if self._codes else 0


def source(*batches: frozenset[Path]) -> Callable[[Sequence[Spot]], Iterator[frozenset[Path]]]:
    """Changes that are noticed, one batch after the other."""
    return lambda _spots: iter([frozenset(), *batches])


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder.parent)
    return Path(os.path.realpath(folder))


def test_first_everything_is_played_then_what_was_saved(here: Path) -> None:
    played = Played(1, 0)
    saved = SAVED({here / "b-held.yaml"})
    Watch(["own"], ["--seed", "7"], play=played, source=source(saved)).go(first_run=True)
    assert played.calls == [
        (["own", "--seed", "7"], True),
        (["own/b-held.yaml", "--seed", "7"], False),
    ]


def test_nothing_is_played_at_the_beginning_where_that_is_not_wanted(here: Path) -> None:
    played = Played()
    Watch(["own"], [], play=played, source=source()).go(first_run=False)
    assert played.calls == []


def test_saved_code_plays_all_that_was_named(here: Path) -> None:
    played = Played()
    code = Path(os.path.realpath(watch_cmd.__file__))
    one = here / "a-held.yaml"
    watch = Watch(["own/a-held.yaml"], [], play=played, source=source(SAVED({code}), SAVED({one})))
    watch.go(first_run=False)
    assert played.calls == [(["own/a-held.yaml"], False), (["own/a-held.yaml"], False)]


def test_result_and_what_was_saved_are_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a-held.yaml").unlink()
    names = ["a-held", "b-held", "c-held", "d-held", "e-held"]
    saved = SAVED({here / f"{name}.yaml" for name in names})
    for name in names[3:]:
        (here / f"{name}.yaml").write_text("x")
    Watch(["own"], [], play=Played(1), source=source(saved)).go(first_run=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "watching scenarios below own, the code of wavecheck; Ctrl-C ends",
        "",
        "saved: own/a-held.yaml, own/b-held.yaml, own/c-held.yaml and 2 others; playing 4 scenarios",
        "gone: own/a-held.yaml",
        "watching: violated (1); Ctrl-C ends",
    ]


def test_adapter_frontend_and_what_is_named_besides_decide_everything(here: Path) -> None:
    for name in ("adapter.py", "vllm-rs", "more.txt"):
        (here.parent / name).write_text("")
    more = Path("more.txt")
    watch = Watch(["own"], [], [more], f"{sys.executable} adapter.py", "vllm-rs")
    root = Path(os.path.realpath(here.parent))
    for name in ("adapter.py", "vllm-rs", "more.txt"):
        assert watch.watched.decides_all(root / name)
    assert not watch.watched.decides_all(root / "other.txt")
    assert Watch(["own"], [], [], None, "0.33.0").watched.others == ()


def test_chapter_is_watched_file_by_file_and_everything_by_its_folder() -> None:
    waves = Watch(["waves"], []).watched
    assert waves.folders == ()
    assert Path(os.path.realpath(builtin_dir() / "waves/two-waves-in-a-row.yaml")) in waves.files
    assert len(waves.files) == len(list((builtin_dir() / "waves").glob("*.yaml")))
    every = Watch([], []).watched
    assert every.folders == (Path(os.path.realpath(builtin_dir())),)


# --- the command ------------------------------------------------------------------------------


@pytest.fixture
def went(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], list[str], bool]]:
    """Names, words of a run and whether there is a first run, of each watch that began."""
    found: list[tuple[list[str], list[str], bool]] = []

    def go(self: Watch, *, first_run: bool) -> None:
        found.append((self._names, self._words, first_run))
        raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "go", go)
    return found


def test_options_of_a_run_are_handed_on_as_they_were_given(
    here: Path, invoke: Invoke, went: list[tuple[list[str], list[str], bool]]
) -> None:
    flags = ["--shard", "1/2", "--frontend-env", "A=b", "--frontend-env", "C=d", "--no-shrink"]
    flags += ["-k", "held", "-x", "--schedules=3", "--target", "vllm-rs", "-v"]
    result = invoke("watch", "own", *flags, "--also", "own", "--no-first-run")
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"
    ((names, words, first_run),) = went
    assert names == ["own"]
    assert not first_run
    handed = run_command.make_context("run", [*words, *names]).params
    assert handed == run_command.make_context("run", ["own", *flags]).params
    assert words[:2] == ["--shard", "1/2"]


def test_every_option_of_a_run_is_one_of_watch_but_last_failed() -> None:
    of_run = {parameter.name for parameter in run_command.params}
    of_watch = {parameter.name for parameter in watch_command.params}
    assert of_run - of_watch == {"last_failed"}
    assert of_watch - of_run == {"also", "first_run"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing-here"], "no scenario, chapter, file or folder is called 'nothing-here'"),
        (["own", "--mutant", "nonsense"], "nonsense"),
        (["own", "--json", "-"], "one document after the other"),
        (["own", "--frontend", "0.33.0"], "--frontend does not go with --target sim"),
        (["own", "--also", "no-such-file"], "does not exist"),
        (["own", "--nonsense"], "--nonsense"),
    ],
)
def test_wrong_use_is_told_before_anything_is_watched(
    here: Path, invoke: Invoke, went: list[object], words: list[str], message: str
) -> None:
    result = invoke("watch", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert went == []


def test_missing_library_ends_with_the_command_that_installs_it(
    here: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    result = invoke("watch", "own", "--no-first-run")
    assert result.exit_code == 3
    assert "the library watchfiles is not installed" in result.stderr
    assert "'wavecheck[watch]'" in result.stderr


# --- for real ---------------------------------------------------------------------------------


def reached(found: Iterator[frozenset[Path]], wanted: Path) -> bool:
    """Whether a batch with this file comes; others may come before it."""
    return any(wanted in batch for batch in found)


@pytest.mark.slow
def test_changes_are_noticed_also_by_renaming_and_in_new_folders(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    (root / "a.yaml").write_text("1")
    found = noticing.batches([Spot(root, deep=True)])
    assert next(found) == frozenset()
    (root / "a.yaml").write_text("2")
    assert reached(found, root / "a.yaml")
    (root / "a.yaml.new").write_text("3")
    (root / "a.yaml.new").replace(root / "a.yaml")
    assert reached(found, root / "a.yaml")
    (root / "deep" / "deeper").mkdir(parents=True)
    (root / "deep" / "deeper" / "b.yaml").write_text("1")
    assert reached(found, root / "deep" / "deeper" / "b.yaml")
    (root / "deep" / "deeper" / "b.yaml").write_text("2")
    assert reached(found, root / "deep" / "deeper" / "b.yaml")
    found.close()


def test_system_that_refuses_to_watch_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import watchfiles

    def refuse(*_paths: object, **_options: object) -> Iterator[object]:
        yield from ()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(watchfiles, "watch", refuse)
    with pytest.raises(CannotWatchError, match="No space left"):
        next(noticing.batches([Spot(tmp_path)]))


class Reader:
    """Lines of a process as they come, so that a test can wait for one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._stream = process.stdout
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        self.seen: list[str] = []

    def _read(self) -> None:
        for line in self._stream:
            self._lines.put(line)
        self._lines.put(None)

    def until(self, pattern: str) -> str:
        """Wait for a line that has the pattern."""
        while (line := self._lines.get(timeout=WAIT_S)) is not None:
            self.seen.append(line)
            if re.search(pattern, line):
                return line
        msg = f"it ended without {pattern!r}:\n{''.join(self.seen)}"
        raise AssertionError(msg)

    def rest(self) -> str:
        """What comes until its end."""
        found = []
        while (line := self._lines.get(timeout=WAIT_S)) is not None:
            found.append(line)
        self._thread.join(WAIT_S)
        return "".join(found)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], Reader]]]:
    processes: list[subprocess.Popen[str]] = []

    def start(*words: str) -> tuple[subprocess.Popen[str], Reader]:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", "watch", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
        return process, Reader(process)

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait(WAIT_S)
        assert process.stdout is not None
        process.stdout.close()


def left_of(marker: str) -> list[str]:
    """Command lines of processes that have a word which is in no other one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if marker in line:
            found.append(line)
    return found


@pytest.mark.slow
def test_save_is_played_in_a_new_process_and_an_interruption_ends_it(
    here: Path, started: Callable[..., tuple[subprocess.Popen[str], Reader]]
) -> None:
    """The scenario held; it is made to expect what does not come, then made invalid."""
    path = here / "a-held.yaml"
    process, reader = started("own/a-held.yaml", "--no-first-run", "--out", str(here / "out"))
    reader.until("^watching 1 scenario, the code of wavecheck; Ctrl-C ends")
    good = path.read_text()
    path.write_text(good + "  - expect: {healthy: true}\n")
    reader.until("^saved: own/a-held.yaml; playing 1 scenario")
    reader.until("^held .* own/a-held|^held .* a-held")
    reader.until(r"^watching: held \(0\)")
    path.write_text(good + "  - expect: {healthy: false}\n")
    reader.until("^violated ")
    reader.until(r"^watching: violated \(1\)")
    path.write_text("x: [")
    reader.until("^error: invalid YAML")
    reader.until(r"^watching: could not be played \(2\)")
    process.send_signal(signal.SIGINT)
    assert process.wait(WAIT_S) == 130
    assert reader.rest() == "interrupted\n"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_while_something_is_played_leaves_no_process(
    here: Path, started: Callable[..., tuple[subprocess.Popen[str], Reader]], number: int
) -> None:
    marker = str(here / "marked")
    words = ["utility", "--schedules", "100000", "--strategy", "random", "--out", marker]
    process, reader = started(*words)
    reader.until("scenarios, target sim")
    assert len(left_of(marker)) >= 2
    process.send_signal(number)
    assert process.wait(WAIT_S) == 130
    rest = reader.rest()
    assert "exit 130: interrupted" in rest
    assert rest.endswith("\ninterrupted\n")
    assert left_of(marker) == []


def test_lines_of_what_held_are_left_out_but_for_those_with_a_remark(monkeypatch, capsys):
    passing = rerunning.Passing()
    lines = (
        "held       a  0.33.0  (0.1 s)\n",
        "held       b  0.33.0  (0.1 s)\n",
        "           some.rule (should) is violated; --strict counts it\n",
        "violated   c  0.33.0  (0.1 s)\n",
        "held       d  0.33.0  (0.1 s)\n",
        "3 held, 1 violated\n",
    )
    for line in lines:
        passing.take(line)
    assert capsys.readouterr().out == "".join(lines[i] for i in (1, 2, 3, 5))
