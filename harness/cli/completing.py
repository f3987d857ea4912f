"""What a shell may complete: ids of scenarios and mutants, releases, names of strategies.

Called for each press of the key, so nothing is loaded but names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from client.protocol.profiles import RELEASES
from harness.mutants import discover as discover_mutants
from harness.scenario import selection
from harness.strategies import searches


def scenario_names(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Ids and chapters, up to the next slash; and files."""
    del context, parameter
    names: dict[str, None] = {}
    for found in selection.builtin():
        if found.id.startswith(begun):
            rest = found.id[len(begun) :]
            names[begun + rest[: rest.find("/") + 1] if "/" in rest else found.id] = None
    file = [CompletionItem(begun, type="file")] if _may_be_file(begun) else []
    return [*(CompletionItem(name) for name in names), *file]


def _may_be_file(begun: str) -> bool:
    folder = os.path.dirname(begun) or "."
    return os.path.isdir(folder)


def _words(words: Iterable[str], begun: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(begun)]


def mutant_names(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Ids of known bugs, with what they are."""
    del context, parameter
    return [
        CompletionItem(mutant.id, help=mutant.title)
        for mutant in discover_mutants()
        if mutant.id.startswith(begun)
    ]


def releases(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Known releases."""
    del context, parameter
    return _words(RELEASES, begun)


def releases_or_all(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Known releases, or all of them."""
    return [*releases(context, parameter, begun), *_words(["all"], begun)]


def frontends(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Known releases, our own server, or a file."""
    found = [*releases(context, parameter, begun), *_words(["reference"], begun)]
    return [*found, CompletionItem(begun, type="file")]


def strategy_names(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Names of strategies, with what they are."""
    del context, parameter
    return [
        CompletionItem(name, help=title)
        for name, title in searches().items()
        if name.startswith(begun)
    ]
