"""Tables of what the code knows: invariants, mutants, events, errors, releases."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Sequence

from client import errors as client_errors
from client.events import ClientEvent
from client.protocol.profiles import PROFILES, Profile
from harness.docs.markdown import code, prose, table
from harness.invariants import discover as discover_invariants
from harness.mutants import discover as discover_mutants
from harness.mutants.base import FAMILIES
from harness.trace.kinds import FIELDS_OF, KIND_OF
from mock_engines.events import MockEvent


def invariants_table() -> str:
    """All invariants: id, statement, level, what they need, where they apply."""
    return table(
        ("id", "statement", "level", "judged", "needs", "releases"),
        (
            (
                f"`{cls.id}`",
                cls.doc().get("statement", "").replace("``", "`"),
                cls.level.value,
                cls.kind.value,
                code(sorted(cls.needs)),
                cls.profiles or "all",
            )
            for cls in discover_invariants()
        ),
    )


def invariants_reference() -> str:
    """Each invariant with its statement, its reason and source, and the bugs that it finds."""
    mutants: dict[str, list[str]] = {}
    for mutant in discover_mutants():
        mutants.setdefault(mutant.killed_by, []).append(mutant.id)
    parts = []
    for cls in discover_invariants():
        said = {key: prose(text) for key, text in cls.doc().items()}
        rows = [
            ("why", said.get("reason", "")),
            ("source", said.get("source", "")),
            ("limits", said.get("limits", "")),
            ("level, judged", f"{cls.level.value}, {cls.kind.value}"),
            ("needs", code(sorted(cls.needs))),
            ("releases", f"`{cls.profiles}`" if cls.profiles else "all"),
            ("finds the mutants", code(mutants.get(cls.id, ()))),
        ]
        about = table(("key", "value"), (row for row in rows if row[1]))
        parts.append(f"## {cls.id}\n\n{said.get('statement', '')}\n\n{about}")
    return "\n".join(parts)


def mutants_table() -> str:
    """All mutants by family: id, the fault, what comes of it, the invariant that kills them."""
    parts = []
    for family in FAMILIES:
        rows = (
            (f"`{mutant.id}`", mutant.title, mutant.bug, f"`{mutant.killed_by}`", mutant.source)
            for mutant in discover_mutants()
            if mutant.family == family
        )
        head = ("id", "fault", "what comes of it", "killed by", "source")
        parts.append(f"### {family.capitalize()}\n\n{table(head, rows)}")
    return "\n".join(parts)


def visibility_table() -> str:
    """All mutants: whether a black box shows their fault, and if not why."""
    return table(
        ("mutant", "shows in", "because"),
        (
            (f"`{mutant.id}`", mutant.visible(), mutant.hidden_because)
            for mutant in discover_mutants()
        ),
    )


def events_table() -> str:
    """All kinds of trace events: meaning, who tells them, and their fields."""
    tellers = {
        "engines": typing.get_args(MockEvent),
        "client": typing.get_args(ClientEvent),
    }

    def teller(event_type: type) -> str:
        return next((who for who, types in tellers.items() if event_type in types), "harness")

    return table(
        ("kind", "when", "told by", "fields"),
        (
            (f"`{kind}`", meaning, teller(event_type), code(FIELDS_OF[event_type]))
            for event_type, (kind, meaning) in KIND_OF.items()
        ),
    )


def errors_table() -> str:
    """The client's errors, with the release since which each exists."""
    # Names in "Error" are the groups of the tree; nothing raises those.
    found = [cls for cls in client_errors.error_tree() if not cls.__name__.endswith("Error")]
    return table(
        ("error", "since", "raised when"),
        (
            (f"`{cls.__name__}`", cls.since or "ours", _first_sentence(cls))
            for cls in sorted(found, key=lambda cls: cls.__name__)
        ),
    )


def profiles_table() -> str:
    """Every property in which releases differ, with the releases at which it changes."""
    profiles = list(PROFILES.values())
    rows = []
    for field in dataclasses.fields(Profile):
        if field.name in ("release", "version"):
            continue
        changes = _changes(profiles, field.name)
        if len(changes) > 1:
            rows.append((f"`{field.name}`", "; ".join(changes)))
    return table(("property", "value, by first release"), rows)


def _changes(profiles: Sequence[Profile], name: str) -> list[str]:
    changes: list[str] = []
    before: object = dataclasses.MISSING
    for profile in profiles:
        value = getattr(profile, name)
        if value != before:
            changes.append(f"{_shown(before, value)}: {profile.release}")
            before = value
    return changes


def _shown(before: object, value: object) -> str:
    """Show a value; of a collection that changed, only what was added and dropped."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, tuple | frozenset):
        return "any" if value is None else str(value)
    ordered = sorted(value) if isinstance(value, frozenset) else list(value)
    if not isinstance(before, tuple | frozenset):
        return code(str(item) for item in ordered) or "none"
    added = [f"+`{item}`" for item in ordered if item not in before]
    dropped = [f"-`{item}`" for item in sorted(before) if item not in value]
    return " ".join([*added, *dropped])


def _first_sentence(cls: type) -> str:
    text = " ".join((cls.__doc__ or "").split()).replace("``", "`")
    return text.split(". ")[0].rstrip(".")
