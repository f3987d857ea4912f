"""What ``capture`` and ``diff`` share: choosing stories, and taking them on a frontend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from client.protocol.profiles import RELEASES
from harness.capture.selecting import chosen_stories
from harness.capture.take import FAILED, PLAYED, Capture, take
from harness.cli.frontend_flags import Environment, check_as_release, fixed_path, start_options
from harness.cli.output import CommandError, Progress, unknown_word, usage_error
from harness.reports.diagnostic import Diagnostic
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario
from harness.targets.base import TargetError
from harness.targets.registry import KINDS, is_black_box
from harness.targets.request import TargetRequest
from harness.verdict import ExitCode

Command = TypeVar("Command", bound=Callable[..., Any])


def target_options(command: Command) -> Command:
    """``--target``, and how a frontend is started."""
    target = click.option(
        "--target",
        type=click.Choice(list(KINDS)),
        default="vllm-rs",
        show_default=True,
        help="What is captured: a real frontend (vllm-rs), our reference client (sim, zmq), vLLM's own "
        "Python classes (vllm-py), or any client behind the line protocol (adapter).",
    )
    return target(start_options(command))


def load_stories(names: Sequence[str]) -> list[LoadedScenario]:
    """Load what is named, or the fixed set.

    Raises:
        CommandError: a name is none, or a file is not valid (exit code 2).
    """
    try:
        return chosen_stories(names)
    except selection.SelectionError as error:
        raise usage_error(str(error), help_text=error.help) from error
    except selection.InvalidScenariosError as error:
        found = [diagnostic for one in error.errors for diagnostic in one.diagnostics()]
        raise CommandError(found, ExitCode.USAGE) from error


def request_of(
    target: str,
    frontend: str | None,
    as_release: str | None,
    arguments: tuple[str, ...],
    environment: Environment,
) -> TargetRequest:
    """Say how the target is had; ``frontend`` is a release for the reference client too.

    Raises:
        CommandError: flags that do not go together, or an unknown release.
    """
    if is_black_box(target):
        named = [] if frontend is None else [frontend]
        check_as_release(as_release, named, attached=False)
        return TargetRequest(target, fixed_path(frontend), as_release, arguments, environment)
    for given, flag in (
        (as_release, "--as-release"),
        (arguments, "--frontend-arg"),
        (environment, "--frontend-env"),
    ):
        if given:
            msg = f"{flag} does not go with --target {target}"
            raise usage_error(msg, help_text="the reference client is no process of its own")
    if frontend is not None and frontend not in RELEASES:
        word = "release"
        raise unknown_word(word, frontend, RELEASES)
    return TargetRequest(target, profile=frontend)


def capture_of(stories: Sequence[LoadedScenario], request: TargetRequest) -> Capture:
    """Play the stories, with a line of progress on a terminal.

    Raises:
        CommandError: the target cannot be had (exit code 3), or there is none (2).
    """
    progress = Progress()
    try:
        return take(stories, request, progress.show)
    except TargetError as error:
        raise CommandError([Diagnostic("error", str(error))], ExitCode.HARNESS) from error
    except ValueError as error:
        # An unknown release of the frontend, or a path that is none.
        raise usage_error(str(error)) from error
    finally:
        progress.clear()


def failures_of(capture: Capture) -> list[Diagnostic]:
    """Messages on stories at which the target or the harness broke."""
    return [
        Diagnostic("error", f"{story.id} could not be captured on {capture.title}: {story.reason}")
        for story in capture.stories
        if story.status == FAILED
    ]


def exit_of(capture: Capture) -> ExitCode:
    """3 if a story failed, 4 if none was played, else 0."""
    if any(story.status == FAILED for story in capture.stories):
        return ExitCode.HARNESS
    if not any(story.status == PLAYED for story in capture.stories):
        return ExitCode.NOT_JUDGED
    return ExitCode.OK
