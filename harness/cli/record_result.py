"""What ``wavecheck record`` says in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from client.protocol.transport import TransportError
from harness.cli.output import CommandError, Output, usage_error
from harness.cli.record_wish import Wish
from harness.recording.folder import FRAMES, SCENARIO, Made
from harness.recording.live import FAILED, Ended
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import SCHEMA
from harness.reports.wording import counted
from harness.verdict import ExitCode
from harness.version import tool_version


def tell_nothing(wish: Wish, ended: Ended, out: Output) -> int:
    """Say that nobody spoke; returns the exit code. Raises ``CommandError`` if something broke."""
    if ended.failure is not None:
        title = f"nothing was recorded: {ended.failure}"
        if isinstance(ended.failure, TransportError):
            # Nothing was sent yet: the address is none that a socket takes.
            raise usage_error(title)
        raise CommandError([Diagnostic("error", title)], ExitCode.HARNESS)
    out.show(
        Diagnostic(
            "error",
            f"nothing was recorded ({ended.reason})",
            help="no engine and no frontend spoke at these addresses; are they the right ones?",
        )
    )
    out.write({**_head(wish, ended), "messages": 0, "exit": int(ExitCode.NOT_JUDGED)})
    return int(ExitCode.NOT_JUDGED)


def _head(wish: Wish, ended: Ended) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "tool": {"version": tool_version()},
        "proxy": wish.proxy,
        "redacted": wish.redact,
        "ended": ended.reason,
        "joined": list(ended.joined),
    }


def tell(out: Output, folder: Path, wish: Wish, ended: Ended, made: Made) -> int:
    """Say what was recorded and made; returns the exit code."""
    code = ExitCode.HARNESS if ended.failure is not None else ExitCode.OK
    if ended.failure is not None:
        what = "an engine or a socket failed" if ended.reason == FAILED else "not all was recorded"
        text = f"{what}: {type(ended.failure).__name__}: {ended.failure}"
        out.show(Diagnostic("error", text))
    for note in ended.notes:
        out.show(Diagnostic("note", note))
    out.say(
        f"{ended.reason}: {counted(made.messages, 'message')} of"
        f" {counted(len(made.ranks), 'engine')} in {made.seconds:.1f} s, release {made.release}"
        f" ({made.why})"
    )
    out.say(
        f"{folder}: {FRAMES}, {counted(made.vectors, 'golden vector')}, {SCENARIO} with"
        f" {counted(made.steps, 'step')}"
    )
    if made.notes:
        out.say(f"not in the scenario: {'; '.join(made.notes)}")
    out.say(f"play it: wavecheck run {folder / SCENARIO}")
    out.write(
        {
            **_head(wish, ended),
            "folder": str(folder),
            "release": {"is": made.release, "why": made.why},
            "engines": list(made.ranks),
            "messages": made.messages,
            "kinds": made.kinds,
            "seconds": made.seconds,
            "vectors": made.vectors,
            "steps": made.steps,
            "left_out": made.notes,
            "notes": ended.notes,
            "exit": int(code),
        }
    )
    return int(code)
