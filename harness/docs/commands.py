"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from harness.cli.main import cli
from harness.docs.markdown import code, prose, table
from harness.verdict import ExitCode

Found = tuple[str, click.Command, click.Context]


def commands(
    command: click.Command = cli, name: str = "wavecheck", parent: click.Context | None = None
) -> Iterator[Found]:
    """Every public command below one, itself first: words that call it, itself, its context."""
    context = click.Context(
        command, info_name=name.rpartition(" ")[2], parent=parent, **command.context_settings
    )
    yield name, command, context
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            if below is not None and not below.hidden:
                yield from commands(below, f"{name} {word}", context)


def index() -> str:
    """All commands in one line each."""
    return table(
        ("command", "does"),
        (
            (f"[`{name}`](#{name.replace(' ', '-')})", prose(command.get_short_help_str(200)))
            for name, command, _ in commands()
            if not isinstance(command, click.Group)
        ),
    )


def reference() -> str:
    """A section for each command: usage, what it does, arguments, options, examples."""
    return "\n".join(_section(*found) for found in commands())


def _section(name: str, command: click.Command, context: click.Context) -> str:
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"## {name}", f"```text\n{usage}\n```", *_paragraphs(command.help or "")]
    rows = list(option_rows(command, context))
    if rows:
        parts.append(table(("option", "value", "default", "meaning"), rows).rstrip())
    parts += _paragraphs(command.epilog or "")
    return "\n\n".join(parts) + "\n"


def option_rows(command: click.Command, context: click.Context) -> Iterator[tuple[str, ...]]:
    """Names, value, default and meaning of each public option."""
    for parameter in command.get_params(context):
        if not isinstance(parameter, click.Option) or parameter.hidden:
            continue
        yield (
            code([*parameter.opts, *parameter.secondary_opts]),
            _value(parameter),
            _default(parameter),
            prose(parameter.help or "") + _variable(parameter),
        )


def _value(option: click.Option) -> str:
    if option.is_flag or option.count:
        return ""
    if isinstance(option.type, click.Choice):
        value = code(str(choice) for choice in option.type.choices)
    else:
        value = f"`{option.metavar or option.type.name.upper()}`"
        bounds = _bounds(option.type)
        value += f" ({bounds})" if bounds else ""
    return value + ("; several times" if option.multiple else "")


def _bounds(kind: object) -> str:
    if not isinstance(kind, click.IntRange | click.FloatRange):
        return ""
    above = "more than" if kind.min_open else "at least"
    low = None if kind.min is None else f"{above} {kind.min:,}"
    high = None if kind.max is None else f"at most {kind.max:,}"
    return ", ".join(part for part in (low, high) if part)


def _default(option: click.Option) -> str:
    if option.is_flag and option.secondary_opts:
        return f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
    plain = isinstance(option.default, str | int | float) and not isinstance(option.default, bool)
    if option.is_flag or option.count or not plain or option.default == "":
        return "required" if option.required else ""
    return f"`{option.default}`"


def _variable(option: click.Option) -> str:
    if not option.envvar:
        return ""
    names = [option.envvar] if isinstance(option.envvar, str) else option.envvar
    return f" Environment: {code(names)}."


def _paragraphs(text: str) -> Iterator[str]:
    r"""Paragraphs of a help text; those behind ``\b`` are kept line by line, as click does."""
    text = inspect.cleandoc(text).partition("\f")[0]
    for part in re.split(r"\n\s*\n", text):
        if not part.strip():
            continue
        if not part.lstrip().startswith("\b"):
            yield prose(part)
            continue
        head, *lines = part.lstrip("\b\n").splitlines() or [""]
        if head.rstrip().endswith(":") and lines:
            yield prose(head)
            yield f"```text\n{inspect.cleandoc(chr(10).join(['', *lines]))}\n```"
        else:
            yield f"```text\n{chr(10).join([head, *lines])}\n```"


EXIT_MEANING = {
    ExitCode.OK: "no violation, and at least one scenario held; `replay`: no longer violated",
    ExitCode.VIOLATION: "a violation, or repeats that differ; `replay`: reproduced; `matrix`: a "
    "regression, a blind or an unstable cell",
    ExitCode.USAGE: "bad input, wrong use, or nothing selected",
    ExitCode.HARNESS: "the target or the harness failed",
    ExitCode.NOT_JUDGED: "nothing could be judged; `replay`: diverged; `shrink`: not reproduced",
    ExitCode.INTERRUPTED: "interrupted, by Ctrl-C (SIGINT), SIGTERM or SIGHUP",
    ExitCode.CLOSED_PIPE: "whoever read the output closed it early (`| head`)",
}
"""What each exit code means; one without words here makes the page impossible."""


def exit_codes() -> str:
    """Every exit code with its name and its meaning."""
    return table(
        ("code", "name", "means"),
        ((f"{each.value}", f"`{each.name}`", EXIT_MEANING[each]) for each in ExitCode),
    )
