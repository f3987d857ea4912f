"""The text of a scenario that failed: that of ``wavecheck run``, as pytest's kind of object."""

from __future__ import annotations

import dataclasses
import io

from _pytest._code.code import (
    ReprEntryNative,
    ReprExceptionInfo,
    ReprFileLocation,
    ReprTraceback,
)
from _pytest._io import TerminalWriter
from rich.console import Console
from rich.text import Text

from harness.cli.output import guarded
from harness.cli.run_plan import RunPlan
from harness.cli.so_far import event_list
from harness.reports.diagnostic import Diagnostic, render
from harness.reports.text import result_line
from harness.results import ScenarioResult
from harness.scenario.loader import LoadedScenario
from harness.verdict import EXPECTATION, NOT_JUDGED, VIOLATED, why_not_judged


@dataclasses.dataclass(eq=False)
class Told(ReprExceptionInfo):
    """What is shown of a result. Plain text survives the way between processes; colours do not.

    Attributes:
        text: with its styles.
    """

    text: Text = dataclasses.field(default_factory=Text, kw_only=True)

    def toterminal(self, tw: TerminalWriter) -> None:
        """Write the text, in colour where the terminal has it."""
        if not tw.hasmarkup:
            super().toterminal(tw)
            return
        shown = io.StringIO()
        console = Console(file=shown, force_terminal=True, color_system="standard")
        console.print(self.text, soft_wrap=True)
        tw.write(shown.getvalue())


def told(result: ScenarioResult, loaded: LoadedScenario, plan: RunPlan, *, detailed: bool) -> Told:
    """What is told of a result that is not fine.

    Args:
        result: of the run.
        loaded: the scenario.
        plan: says what counts.
        detailed: with every event of the failing run.
    """
    messages = plan.messages(result, loaded)
    known = plan.flags.allow_known
    parts = [result_line(result, allow_known=known, word=plan.label(result))]
    parts += [Text(line) for line in plan.ruling(result).lines]
    parts += [render(message) for message in messages]
    if detailed and messages:
        parts.append(Text("\n".join(event_list(result))))
    text = guarded(Text("\n\n").join(parts))
    entry = ReprEntryNative([f"{text.plain}\n"])
    return Told(
        reprtraceback=ReprTraceback([entry], None, "native"),
        reprcrash=ReprFileLocation(
            str(loaded.path), _line(result, loaded, messages), _headline(result, messages)
        ),
        text=text,
    )


def _headline(result: ScenarioResult, messages: list[Diagnostic]) -> str:
    """One line for summaries."""
    if messages:
        first = messages[0]
        code = f"[{first.code}]" if first.code else ""
        return f"{first.level}{code}: {first.title.partition(chr(10))[0]}"
    reason = why_not_judged(result) if result.status == NOT_JUDGED else result.reason or ""
    return f"{result.status.replace('_', ' ')}: {reason}"


def _line(result: ScenarioResult, loaded: LoadedScenario, messages: list[Diagnostic]) -> int:
    """The line of the file that it is about, from 1."""
    if not messages or messages[0].code != EXPECTATION:
        return 1
    step = next((e.step for e in result.expectations if e.status == VIOLATED), None)
    place = None if step is None else loaded.positions.find(("steps", step))
    return 1 if place is None else place.line
