"""``wavecheck matrix``: every scenario on every frontend, as one table."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from client.protocol.profiles import RELEASES
from harness.cli.catalogue import invariant_doc
from harness.cli.cells import CellJob, play_cells
from harness.cli.executors import Executor
from harness.cli.frontend_flags import (
    Environment,
    check_as_release,
    check_mutant,
    fixed_path,
    start_options,
)
from harness.cli.last_failed import Failed, elsewhere, recall, remember
from harness.cli.matrix_progress import MatrixProgress
from harness.cli.output import (
    Folder,
    Output,
    Trouble,
    cannot_write,
    check_folder,
    json_option,
    unknown_word,
    usage_error,
)
from harness.cli.pool import interruptible
from harness.cli.run_cmd import REPEAT_MAX, TIMEOUT_MAX_S, a_number
from harness.cli.run_plan import TIMEOUT_S
from harness.cli.selecting import Part, Shard, chosen, part_options
from harness.cli.spreading import check_executor, open_executor, spreading_options
from harness.files import write_own
from harness.matrix.classify import table_exit
from harness.matrix.columns import ALL, KIND, Start, open_column, order_of, parse_frontends
from harness.matrix.flips import flips
from harness.matrix.identity import cell_key
from harness.matrix.model import ERROR, Cell, Column, Row, Table
from harness.matrix.store import FILE_NAME, CellStore, StoreBusyError
from harness.mutants import discover as discover_mutants
from harness.reading import TooLargeError
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import to_text
from harness.reports.matrix_html import matrix_html
from harness.reports.matrix_json import matrix_document
from harness.reports.matrix_markdown import matrix_markdown
from harness.reports.matrix_text import flip_lines, grid, legend, red_diagnostics, summary
from harness.reports.matrix_view import MatrixView
from harness.reports.wording import counted
from harness.runner import RunOptions, planned_trials, run_scenario
from harness.scenario.loader import LoadedScenario
from harness.verdict import EXPECTATION, ExitCode
from harness.version import tool_version

OUT_DEFAULT = Path("wavecheck-out") / "matrix"
FAILURES = "failures"
"""Folder of failure files, below ``--out``."""
RACE_BUDGET_S = 30.0
"""Default of ``--race-budget``, seconds."""

EPILOG = """\b
Examples:
  wavecheck matrix                                    everything on every release
  wavecheck matrix --frontends 0.28.0,0.29.0 utility  one chapter on two releases
  wavecheck matrix --frontends all,target/release/vllm-rs --resume
  wavecheck matrix --frontends reference --mutant ID  see cells turn red
  wavecheck matrix --quick --frontends 0.33.0 --json -

\b
Exit codes:
  0    every cell that was judged is held or known
  1    a cell is a regression, blind or unstable
  2    bad input, wrong use, or nothing selected
  3    cells in error, and none of the former
  4    nothing could be judged
  130  interrupted; the reports hold the cells so far
"""


@click.command("matrix", epilog=EPILOG)
@click.argument("names", metavar="[PATH|ID]...", nargs=-1)
@click.option(
    "--frontends",
    metavar="LIST",
    default=ALL,
    show_default=True,
    help="Frontends, separated by commas: releases, files, `reference` or reference:V (our own "
    "client as a server); all = every known release, fetched if need be.",
)
@start_options
@click.option("--mutant", metavar="ID", help="Give the reference frontends this known bug.")
@part_options
@click.option("--resume", is_flag=True, help="Keep the finished cells of the last run in --out.")
@click.option(
    "--repeat",
    type=click.IntRange(1, REPEAT_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Play each cell N times; red ones are played three times anyway.",
)
@click.option(
    "--race-budget",
    type=click.FloatRange(0, TIMEOUT_MAX_S, min_open=True),
    callback=a_number,
    default=RACE_BUDGET_S,
    show_default=True,
    metavar="S",
    help="Seconds after which a race in which no violation is predicted gets no further trial.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, TIMEOUT_MAX_S, min_open=True),
    callback=a_number,
    default=TIMEOUT_S,
    show_default=True,
    metavar="S",
    help="Safety net: seconds after which one play of a cell is stopped and counts as an error.",
)
@spreading_options("as many as there are processors")
@json_option
@click.option(
    "--out",
    type=Folder(),
    default=OUT_DEFAULT,
    show_default=True,
    metavar="DIR",
    help="Where matrix.json, matrix.md, matrix.html, the failure files and the finished cells go.",
)
def matrix_command(names: tuple[str, ...], **flags: Any) -> int:
    """Play scenarios on several frontends and say what each cell of the table is.

    A cell is held, known (broken, as the scenario's `known` predicts), a regression (broken, and
    not predicted), blind (predicted, and not seen), unstable (repeats differ), not judged (with
    the reason) or in error. The table shows in which release each promise was kept or broken.

    PATH is a scenario file or a folder of them, anywhere. ID is a built-in scenario or a chapter.
    Default: all built-in scenarios.
    """
    with interruptible():
        return int(_Matrix(names, _Flags(**flags)).go())


@dataclass(frozen=True, kw_only=True)
class _Flags:
    frontends: str
    frontend_arg: tuple[str, ...]
    frontend_env: Environment
    as_release: str | None
    mutant: str | None
    word: str | None
    quick: bool
    shard: Shard | None
    last_failed: bool
    resume: bool
    repeat: int
    race_budget: float
    timeout: float
    jobs: int | None
    executor: str | None
    json_file: str | None
    out: Path


class _Matrix:
    """One invocation."""

    def __init__(self, names: Sequence[str], flags: _Flags) -> None:
        self._flags = flags
        self._names = names
        self._output = Output(flags.json_file)
        self._trouble = Trouble()
        self._start = Start(flags.as_release, flags.frontend_arg, flags.frontend_env, flags.mutant)

    def go(self) -> ExitCode:
        """Check the flags, play, report."""
        flags = self._flags
        check_folder(flags.out, "--out")
        check_executor(flags.executor, flags.jobs)
        frontends = self._frontends()
        failed = recall(flags.out) if flags.last_failed else None
        part = Part(word=flags.word, quick=flags.quick, shard=flags.shard, failed=failed)
        loaded = chosen(self._names, part)
        columns = self._open(frontends)
        rows = tuple(_row(one) for one in loaded)
        table = Table(columns, rows, {}, _wanted(rows, columns, failed))
        if not table.pairs():
            msg = "what failed in the last run failed on other frontends"
            raise usage_error(msg, help_text=f"see {flags.out / 'matrix.md'}, or name --frontends")
        # Before the reports of the last run are dropped: a cluster may be out of reach.
        executor = open_executor(flags.executor)
        if failed is not None and (note := elsewhere(failed, [column.id for column in columns])):
            self._output.show(Diagnostic("note", note))
        with contextlib.ExitStack() as stack:
            if executor is not None:
                stack.callback(executor.close)
            store = self._store()
            stack.callback(store.close)
            interrupted, cells = self._play(loaded, table, store, executor)
        return self._report(loaded, Table(columns, rows, cells, table.wanted), interrupted)

    # --- before -----------------------------------------------------------------------------

    def _frontends(self) -> list[str]:
        flags = self._flags
        try:
            named = parse_frontends(flags.frontends)
        except ValueError as error:
            msg = f"--frontends: {error}"
            raise usage_error(msg) from error
        check_as_release(flags.as_release, named, attached=False)
        if flags.mutant is not None:
            mutants = [mutant.id for mutant in discover_mutants()]
            if flags.mutant not in mutants:
                msg = "mutant"
                raise unknown_word(msg, flags.mutant, mutants)
            check_mutant(flags.mutant, named)
        return [str(fixed_path(name)) for name in named]

    def _open(self, frontends: Sequence[str]) -> tuple[Column, ...]:
        columns = []
        for frontend in frontends:
            try:
                column = open_column(frontend, self._start)
            except ValueError as error:
                raise usage_error(str(error)) from error
            if column.error is not None:
                self._output.show(Diagnostic("error", column.error, where=frontend))
            elif column.note:
                self._output.show(Diagnostic("note", column.note))
            columns.append(column)
        return tuple(order_of(columns))

    def _store(self) -> CellStore:
        """The finished cells; a new matrix also drops the failure files of the last one."""
        flags = self._flags
        fresh = not (flags.resume or flags.last_failed)
        if (flags.out / FAILURES).is_symlink():
            # What is in it is emptied, and that may be anybody's.
            msg = f"--out: {flags.out / FAILURES} is a link, and this command makes it itself"
            raise usage_error(msg, help_text="remove it, or use another --out")
        try:
            (flags.out / FAILURES).mkdir(parents=True, exist_ok=True)
            store = CellStore(flags.out / FILE_NAME, fresh=fresh)
            if fresh:
                # Whatever becomes of this run, no report of the last one may pass for its own.
                reports = (flags.out / f"matrix.{kind}" for kind in ("json", "md", "html"))
                for old in (*(flags.out / FAILURES).glob("*.json"), *reports):
                    old.unlink(missing_ok=True)
        except StoreBusyError as error:
            msg = f"another run of `wavecheck matrix` writes into {flags.out}"
            raise usage_error(msg, help_text="wait for its end, or use another --out") from error
        except TooLargeError as error:
            msg = f"cannot take up {error.filename}: {error.strerror}"
            help_text = "without --resume and --last-failed it is begun anew"
            raise usage_error(msg, help_text=help_text) from error
        except OSError as error:
            raise cannot_write(error.filename or flags.out, error) from error
        if store.unreadable:
            what = f"{store.unreadable} unreadable lines in {store.path} are passed over"
            self._output.show(Diagnostic("note", f"{what}; their cells are played again"))
        return store

    # --- meanwhile --------------------------------------------------------------------------

    def _play(
        self,
        loaded: Sequence[LoadedScenario],
        table: Table,
        store: CellStore,
        executor: Executor | None,
    ) -> tuple[bool, dict[tuple[str, str], Cell]]:
        """Play what is not finished; whether it was interrupted, and the cells by pair."""
        flags = self._flags
        by_id = {one.id: one for one in loaded}
        columns = {column.id: column for column in table.columns}
        rows = {row.id: row for row in table.rows}
        cells: dict[tuple[str, str], Cell] = {}
        jobs: list[CellJob] = []
        for scenario, frontend in table.pairs():
            column = columns[frontend]
            if column.error is not None:
                reason = column.error
                cells[scenario, frontend] = Cell(scenario, frontend, ERROR, reason, (ERROR,))
                continue
            key = cell_key(
                by_id[scenario], column, repeat=flags.repeat, race_budget_s=flags.race_budget
            )
            cell = store.get(key) if flags.resume and not flags.last_failed else None
            own = cell is not None and (cell.scenario, cell.frontend) == (scenario, frontend)
            if cell is not None and own and self._whole(cell):
                cells[scenario, frontend] = cell
                continue
            options = self._options(column)
            jobs.append(CellJob(key, rows[scenario], by_id[scenario], frontend, options))
        self._output.say(self._headline(table, kept=len(table.pairs()) - len(jobs)))
        progress = MatrixProgress(len(jobs))

        def done(job: CellJob, cell: Cell) -> None:
            cells[cell.scenario, cell.frontend] = cell
            if cell.status != ERROR and not self._trouble:
                # What failed in us may succeed when it is resumed. After a cell that found no
                # room none is kept: the file must not hold half of one before another.
                with self._trouble.kept(store.path):
                    store.put(job.key, cell)
            progress.advance(cell)

        hopeless: list[Diagnostic] = []

        def give_up(frontend: str, text: str) -> None:
            help_text = "its other cells are not run; --resume runs them once it starts"
            hopeless.append(Diagnostic("error", text, where=frontend, help=help_text))

        try:
            with progress:
                interrupted = play_cells(
                    jobs,
                    run_scenario,
                    out=flags.out,
                    processes=flags.jobs or _processors(),
                    repeat=flags.repeat,
                    on_cell=done,
                    on_hopeless=give_up,
                    executor=executor,
                )
        except KeyboardInterrupt:
            # A moment before the cells, or after them: what there is of them is reported.
            interrupted = True
        for diagnostic in hopeless:
            self._output.show(diagnostic)
        return interrupted, cells

    def _whole(self, cell: Cell) -> bool:
        """Whether what a finished cell points to is still there, where this command puts it."""
        if cell.failure_file is None:
            return True
        path, folder = self._flags.out / cell.failure_file, self._flags.out / FAILURES
        return path.parent == folder and path.is_file()

    def _options(self, column: Column) -> RunOptions:
        flags = self._flags
        request = self._start.request(column.id)
        return RunOptions(
            target=KIND,
            frontend=request.frontend,
            profile=request.profile,
            mutant=flags.mutant,
            timeout_s=flags.timeout,
            allow_known=True,
            out=flags.out / FAILURES,
            frontend_args=flags.frontend_arg,
            frontend_env=flags.frontend_env,
            race_budget_s=flags.race_budget,
        )

    def _headline(self, table: Table, *, kept: int) -> str:
        flags = self._flags
        parts = [
            f"{counted(len(table.rows), 'scenario')} on "
            f"{counted(len(table.columns), 'frontend')}: {counted(len(table.pairs()), 'cell')}"
        ]
        if flags.mutant is not None:
            parts.append(f"mutant {flags.mutant}")
        if flags.executor is not None:
            parts.append(f"executor {flags.executor}")
        if kept and flags.resume:
            parts.append(f"{kept} of them finished before")
        return f"wavecheck {tool_version()}: {', '.join(parts)}"

    # --- after ------------------------------------------------------------------------------

    def _report(
        self, loaded: Sequence[LoadedScenario], table: Table, interrupted: bool
    ) -> ExitCode:
        flags = self._flags
        code = table_exit(table.in_order(), interrupted=interrupted)
        found = tuple(flips(table, RELEASES))
        view = MatrixView(table, found, code, flags.out, tool_version(), invariant_doc)
        document = matrix_document(view)
        trouble = self._trouble
        for name, text in (
            ("matrix.json", to_text(document)),
            ("matrix.md", matrix_markdown(view)),
            ("matrix.html", matrix_html(view)),
        ):
            with trouble.kept(flags.out / name):
                write_own(flags.out / name, text)
        paths = {one.id: os.path.abspath(one.path) for one in loaded}
        bad = [
            Failed(cell.scenario, paths[cell.scenario], cell.frontend)
            for cell in table.in_order()
            if cell.red or cell.status == ERROR
        ]
        if bad or not interrupted:
            with trouble.kept():
                remember(flags.out, bad)
        view = replace(view, code=trouble.code(code))
        with trouble.kept():
            self._output.write(matrix_document(view))
        view = replace(view, code=trouble.code(code))
        # Last, since whoever reads it may be gone; the files must not be lost with them.
        self._say(view)
        trouble.show()
        return view.code

    def _say(self, view: MatrixView) -> None:
        for diagnostic in red_diagnostics(view):
            self._output.show(diagnostic)
        if lines := grid(view):
            self._output.say("")
            for line in lines:
                self._output.say(line)
            self._output.say(legend())
        if found := flip_lines(view):
            self._output.say("")
            for text in found:
                self._output.say(text)
        self._output.say("")
        if left := len(view.table.not_run()):
            self._output.say(f"{left} cells were not run; --resume runs them")
        if not self._trouble:
            self._output.say(f"reports: {view.out / 'matrix.html'}, matrix.md, matrix.json")
        self._output.say(summary(view))


def _row(loaded: LoadedScenario) -> Row:
    scenario = loaded.scenario
    known = tuple(entry for entry in scenario.known if entry.target == KIND)
    names = [*scenario.invariants, *(entry.invariant for entry in known), EXPECTATION]
    return Row(
        id=loaded.id,
        title=scenario.title,
        refs=tuple(scenario.refs),
        known=known,
        race=scenario.trials is not None,
        trials_planned=planned_trials(scenario),
        own=tuple(dict.fromkeys(names)),
    )


def _wanted(
    rows: Sequence[Row], columns: Sequence[Column], failed: Sequence[Failed] | None
) -> frozenset[tuple[str, str]] | None:
    """Cells to play: those that failed in the last run, or all (``None``)."""
    if failed is None:
        return None
    cells = {(one.scenario, one.frontend) for one in failed}
    return frozenset(
        (row.id, column.id) for row in rows for column in columns if (row.id, column.id) in cells
    )


def _processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
