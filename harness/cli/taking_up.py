"""A hunt that is kept while it goes on, and taken up again with ``--resume``."""

from __future__ import annotations

import contextlib
import importlib.metadata
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.output import cannot_write, usage_error
from harness.journal import JournalBusyError
from harness.matrix.identity import digest_of, tool_identity
from harness.reading import TooLargeError
from harness.reports.diagnostic import Diagnostic
from harness.results import ScenarioResult
from harness.runner import RunOptions
from harness.targets.registry import is_black_box
from harness.targets.request import is_reference
from harness.targets.vllm_rs.cache import sha256_of
from harness.targets.vllm_rs.fetch import resolve

if TYPE_CHECKING:
    from harness.generate.kept import Kept
    from harness.generate.shares import ShareResult

Show = Callable[[Diagnostic], None]


def hunt_key(options: RunOptions, *, keep_going: bool) -> str:
    """What a share depends on beside its number.

    Raises:
        TargetError: the frontend cannot be had.
    """
    request = options.request
    binary = None
    if is_black_box(options.target) and not is_reference(request.frontend):
        binary = sha256_of(resolve(request.frontend, request.profile).path)
    return digest_of(
        tool_identity(),
        importlib.metadata.version("hypothesis"),
        sys.version_info[:2],
        (options.target, request.frontend, binary, options.adapter, options.profile),
        (options.schedules, options.strategy, options.seed, options.mutant),
        (options.frontend_args, options.frontend_env),
        keep_going,
    )


class HuntJournal:
    """The kept shares of one hunt. ``end`` it.

    Without ``resume`` a hunt goes on although nothing can be kept, and says so.
    """

    def __init__(
        self, options: RunOptions, folder: Path, *, keep_going: bool, resume: bool, show: Show
    ) -> None:
        """Open it.

        Raises:
            CommandError: it is to be taken up, and cannot be.
        """
        self._show = show
        self._made = [one for one in (folder, *folder.parents) if not one.exists()]
        self._kept: Kept | None = None
        try:
            self._kept = self._open(options, folder, keep_going=keep_going, resume=resume)
        except JournalBusyError as error:
            msg = f"another `wavecheck explore` writes into {folder}"
            if resume:
                raise usage_error(msg, help_text="wait for its end") from error
            self._not_kept(msg)
        except TooLargeError as error:
            # Only what is taken up is read.
            msg = f"cannot take up {error.filename}: {error.strerror}"
            raise usage_error(msg, help_text="without --resume it is begun anew") from error
        except OSError as error:
            if resume:
                raise cannot_write(folder, error) from error
            self._not_kept(f"{folder}: {error.strerror or error}")

    @staticmethod
    def _open(options: RunOptions, folder: Path, *, keep_going: bool, resume: bool) -> Kept:
        from harness.generate.kept import FILE_NAME, Kept, OtherHuntError

        folder.mkdir(parents=True, exist_ok=True)
        try:
            return Kept(folder / FILE_NAME, hunt_key(options, keep_going=keep_going), resume=resume)
        except OtherHuntError as error:
            msg = f"the hunt in {folder / FILE_NAME} is another one"
            help_text = (
                "it had other flags, another frontend, or another version of wavecheck; without "
                "--resume it is begun anew"
            )
            raise usage_error(msg, help_text=help_text) from error

    def _not_kept(self, why: str) -> None:
        help_text = "the hunt goes on; if it is interrupted, --resume cannot take it up"
        self._show(Diagnostic("note", f"what is played is not kept: {why}", help=help_text))

    @property
    def spent_s(self) -> float:
        """How long was looked before."""
        return 0.0 if self._kept is None else self._kept.spent_s

    def shares(self, began: float) -> Mapping[int, ShareResult]:
        """The shares from before, as if they were of a hunt that began then."""
        from harness.generate.kept import absolute

        if self._kept is None:
            return {}
        return {number: absolute(one, began) for number, one in self._kept.shares.items()}

    def keep(self, result: ScenarioResult, began: float, now: float) -> None:
        """Keep a share that was played."""
        from harness.generate.shares import ShareResult

        if self._kept is None or not isinstance(result, ShareResult):
            return
        try:
            self._kept.add(result, began, now)
        except OSError as error:
            self._not_kept(error.strerror or str(error))
            self._kept.close()
            self._kept = None

    def end(self, *, over: bool) -> None:
        """Let go; ``over``: there is nothing to take up, so nothing stays either."""
        if self._kept is not None and over:
            self._kept.remove()
        elif self._kept is not None:
            self._kept.close()
        self._kept = None
        for folder in self._made:
            # One that holds something stays.
            with contextlib.suppress(OSError):
                folder.rmdir()


class InOrder:
    """Shares from before and shares that are played, told in the order of their numbers.

    Attributes:
        left: numbers of those that are to be played.
        kept: how many of those from before count.
    """

    def __init__(
        self,
        before: Mapping[int, ShareResult],
        count: int,
        tell: Callable[[ScenarioResult], None],
        stops: Callable[[ScenarioResult], bool],
    ) -> None:
        """``count``: there are no more shares; ``stops``: whether the hunt ends with one."""
        last = min((number for number, one in before.items() if stops(one)), default=count)
        self._before = dict(sorted((n, one) for n, one in before.items() if n <= last))
        self.kept = len(self._before)
        self._tell = tell
        self._stops = stops
        self._stopped = False
        self.left = [number for number in range(last) if number not in before]

    def take(self, result: ScenarioResult) -> None:
        """Tell of one that was played, and of those before it."""
        from harness.generate.shares import number_of_id

        self._up_to(number_of_id(result.scenario))
        self._tell(result)
        self._stopped = self._stopped or self._stops(result)

    def finish(self) -> None:
        """Tell of the rest."""
        if not self._stopped:
            self._up_to(math.inf)

    def _up_to(self, number: float) -> None:
        for one in [n for n in self._before if n < number]:
            self._tell(self._before.pop(one))
