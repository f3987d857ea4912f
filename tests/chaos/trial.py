"""One disturbed run: when which process is killed, and what must hold behind it."""

from __future__ import annotations

import os
import random  # noqa: TID251 - moments are to be any, and come again with their seed
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.targets.vllm_rs.fetch import FRONTEND_DIR_VARIABLE
from tests.chaos.processes import CLI, KINDS, Marked, Process, await_an_end
from tests.chaos.stages import ERROR, ROOT, Stage, Table

LOOK_S = 0.01
"""Between two looks at the processes, seconds."""
DELAY_S = 0.4
"""A process is killed at most so long after the event that it was waited for."""
ORPHANS_S = 5.0
"""So long after a process was killed, nobody may be left whom it had started."""
MOMENTS_MAX = 50
"""So many moments are drawn for one trial; a run may be over before its moment."""
END_S = 180.0
"""Safety net of one command, seconds."""
INTERRUPTED = 130
"""Exit code of a command that a signal ended."""
HARNESS = 3
"""Exit code of a run in which something could not be judged since a process failed."""


class UndisturbedError(Exception):
    """The run was over before the moment of the kill."""


@dataclass(frozen=True)
class Usual:
    """An undisturbed run.

    Attributes:
        code: its exit code.
        table: what it came to.
        starts: how many processes were started.
    """

    code: int
    table: Table
    starts: int


@dataclass(frozen=True)
class Kill:
    """What was done in one trial, and what was found.

    Attributes:
        number: of the trial; with the seed it fixes the moment that is waited for.
        stage: what was disturbed.
        kind: of the process that was killed.
        start: it was killed some time after so many processes had been started …
        delay_s: … seconds after that.
        code: exit code of the disturbed command, negative for a signal.
        gone_s: until all that the command had started was gone.
        errors: cells in error before the run was taken up again.
        findings: what should not be.
    """

    number: int
    stage: str
    kind: str
    start: int
    delay_s: float
    code: int
    gone_s: float
    errors: int
    findings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


class Place:
    """A folder for a run: its output, its own folder for temporary files, its own cache.

    Attributes:
        out: output folder of the command.
        kept: what the command says, for whoever looks at a finding.
    """

    def __init__(self, folder: Path, binaries: Path | None) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.temporary = folder / "t"
        self.cache = folder / "c"
        self.kept = folder / "said.txt"
        self._binaries = binaries
        self.out.mkdir()
        self.temporary.mkdir()

    def environment(self, marked: Marked) -> dict[str, str]:
        """That of the command."""
        return {
            **os.environ,
            **marked.environment,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.temporary),
            "WAVECHECK_CACHE": str(self.cache),
            **({} if self._binaries is None else {FRONTEND_DIR_VARIABLE: str(self._binaries)}),
        }

    @contextmanager
    def running(self, words: list[str], marked: Marked) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command; whatever happens, nothing of it lives behind this."""
        with self.kept.open("ab") as said:
            said.write(f"$ {' '.join(words[2:])}\n".encode())
            said.flush()
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self.environment(marked),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        marked.root = process.pid
        try:
            yield process
        finally:
            while living := marked.living():
                for one in living:
                    _kill(one)
                _look(process)
            process.wait()

    def leftovers(self) -> list[str]:
        """What must not be there once a run is over: temporary files, half-written ones."""
        found = [f"temporary file {path.name}" for path in self.temporary.iterdir()]
        for folder in (self.out, self.cache):
            found += [f"half a file: {path.name}" for path in folder.rglob("*.partial")]
        found += [f"temporary folder {path.name}" for path in self.cache.rglob(".*-*")]
        return found


def _kill(process: Process, number: signal.Signals = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)


def _look(process: subprocess.Popen[bytes], seconds: float = LOOK_S) -> bool:
    """Whether it has ended; waits a moment for that."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _now() -> float:
    return time.monotonic()  # noqa: TID251 - how long processes of the system take


class Trials:
    """Trials of one stage, behind each other.

    Args:
        stage: what is disturbed.
        folder: where runs are kept that show something.
        binaries: folder of the frontends' binaries, if there are any.
        number: signal that disturbs; another one than SIGKILL is sent to the command alone.
    """

    def __init__(
        self,
        stage: Stage,
        folder: Path,
        binaries: Path | None = None,
        number: signal.Signals = signal.SIGKILL,
    ) -> None:
        self._stage = stage
        self._folder = folder
        self._binaries = binaries
        self._signal = number
        self._usual: Usual | None = None

    @property
    def usual(self) -> Usual:
        """The undisturbed run; it is played when it is first asked for.

        Raises:
            AssertionError: it leaves something behind, so nothing can be learnt from others.
        """
        if self._usual is None:
            with self._place() as place:
                marked = Marked()
                code, _ = self._to_the_end(self._stage.first(place.out), place, marked)
                findings = place.leftovers()
                table = self._stage.table(place.out)
                findings += [f"{row}: {cell}" for row, cell in table.items() if _failed(cell)]
                if not table:
                    findings.append(f"nothing was played (exit code {code})")
                assert not findings, f"undisturbed: {findings}\n{place.kept.read_text()}"
                self._usual = Usual(code, table, len(marked.seen))
        return self._usual

    def trial(self, number: int, seed: int) -> Kill:
        """Kill one process at the moment that seed and number choose."""
        chance = random.Random(f"{seed}/{number}")
        for _ in range(MOMENTS_MAX):
            start = chance.randint(1, self.usual.starts)
            delay_s = round(chance.uniform(0, DELAY_S), 3)
            with self._place() as place:
                try:
                    kill = self._disturb(number, start, delay_s, chance, place)
                except UndisturbedError:
                    continue  # the next moment of the same trial
                if kill.findings:
                    shutil.copytree(
                        place.folder,
                        self._folder / f"{self._stage.name}-{number}",
                        dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("t"),
                    )
                return kill
        msg = f"in {MOMENTS_MAX} runs there was nobody to kill at the moment that was chosen"
        raise AssertionError(msg)

    def _disturb(
        self, number: int, start: int, delay_s: float, chance: random.Random, place: Place
    ) -> Kill:
        marked = Marked()
        findings: list[str] = []
        with place.running(self._stage.first(place.out), marked) as command:
            by_a_signal = self._signal != signal.SIGKILL
            kinds = (CLI,) if by_a_signal else KINDS
            victim = _choose(command, marked, start, delay_s, chance, kinds)
            _kill(victim, self._signal)
            findings += _watch(command, marked, _now())
            code = command.wait(END_S)
            gone_s, left = _gone(marked, _now())
            findings += left
        findings += self._stage.broken(place.out)
        told = victim.kind != CLI
        errors = 0
        if told or (by_a_signal and code != INTERRUPTED):
            # By a signal that came too late, too.
            if code not in {self.usual.code, HARNESS} - ({HARNESS} if by_a_signal else set()):
                findings.append(f"exit code {code}, and {victim.kind} got {self._signal.name}")
            table = self._stage.table(place.out)
            errors = sum(_failed(cell) for cell in table.values())
            findings += self._differences(table, errors_allowed=True)
        code_again, living = self._to_the_end(
            self._stage.again(place.out, told=told), place, Marked()
        )
        findings += living
        if code_again != self.usual.code:
            findings.append(f"taken up again, it ends with {code_again}, not {self.usual.code}")
        findings += self._differences(self._stage.table(place.out), errors_allowed=False)
        findings += [*self._stage.broken(place.out), *place.leftovers()]
        return Kill(
            number,
            self._stage.name,
            victim.kind,
            start,
            delay_s,
            code,
            round(gone_s, 3),
            errors,
            findings,
        )

    def _differences(self, table: Table, *, errors_allowed: bool) -> list[str]:
        """Where a table is not the usual one; a cell in error may be no verdict at all."""
        usual = self.usual.table
        found = [f"{row} is missing" for row in usual if row not in table and not errors_allowed]
        for row, cell in table.items():
            if cell != usual.get(row) and not (errors_allowed and _failed(cell)):
                found.append(f"{row}: {cell} instead of {usual.get(row)}")
        return found

    def _to_the_end(self, words: list[str], place: Place, marked: Marked) -> tuple[int, list[str]]:
        """Exit code of a command that nobody disturbs, and who outlives it."""
        with place.running(words, marked) as command:
            until = _now() + END_S
            while not _look(command, 0.05) and _now() < until:
                marked.living()
            code = command.wait(0.1)
            return code, _gone(marked, _now())[1]

    @contextmanager
    def _place(self) -> Iterator[Place]:
        # A short name: socket files are in it, whose names are bounded.
        with tempfile.TemporaryDirectory(prefix="wc-") as folder:
            yield Place(Path(folder), self._binaries)


def _failed(cell: Any) -> bool:
    return bool(cell["status"] == ERROR)


def _choose(
    command: subprocess.Popen[bytes],
    marked: Marked,
    start: int,
    delay_s: float,
    chance: random.Random,
    among: Sequence[str],
) -> Process:
    """Wait for the moment, and choose whom to kill: each kind is as likely as the others.

    Raises:
        UndisturbedError: the run is over.
    """
    until = _now() + END_S
    while len(marked.seen) < start:
        marked.living()
        if _look(command) or _now() > until:
            raise UndisturbedError
    if _look(command, delay_s):
        raise UndisturbedError
    living = marked.living()
    kinds = [kind for kind in among if any(one.kind == kind for one in living)]
    if not kinds:
        raise UndisturbedError
    kind = chance.choice(kinds)
    return chance.choice([one for one in living if one.kind == kind])


def _watch(command: subprocess.Popen[bytes], marked: Marked, killed: float) -> list[str]:
    """Follow a command to its end; who has no parent for too long."""
    lonely: dict[int, float] = {}
    until = killed + END_S
    while not _look(command):
        now = _now()
        if now > until:
            return [f"it has not ended after {END_S:g} s"]
        orphans = {one.pid: one for one in marked.orphans()}
        lonely = {pid: lonely.get(pid, now) for pid in orphans}
        late = [pid for pid, since in lonely.items() if now - since > ORPHANS_S]
        if late:
            one = orphans[late[0]]
            return [f"an orphan lives for more than {ORPHANS_S:g} s: {one.kind}: {one.command}"]
    return []


def _gone(marked: Marked, ended: float) -> tuple[float, list[str]]:
    """How long whoever was left behind lived, and who does so for too long."""
    while living := marked.living():
        if _now() - ended > ORPHANS_S:
            return ORPHANS_S, [f"lives on: {one.kind}: {one.command[:200]}" for one in living]
        await_an_end(living, 0.1)
    return _now() - ended, []
