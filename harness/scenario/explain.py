"""Pydantic's errors as problems of a file, in the words of its author."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harness.scenario.positions import Path, Positions
from harness.scenario.problems import Problem, did_you_mean, nearest, one_of, show

_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "finite_number": "a finite number",
    "string_too_short": "text that is not empty",
    "string_pattern_mismatch": "one line of text without control characters",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def _models_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation: ``X``, ``X | None``, ``list[X]``, ``Annotated[X, …]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) is None and not isinstance(annotation, types.UnionType):
        return None
    found = (_models_in(part) for part in typing.get_args(annotation))
    return next((model for model in found if model is not None), None)


def model_at(root: type[BaseModel], loc: Sequence[str | int]) -> type[BaseModel] | None:
    """The model that describes the mapping at ``loc``, or ``None``."""
    model: type[BaseModel] | None = root
    for element in loc:
        if isinstance(element, int) or model is None:
            continue
        info = model.model_fields.get(element)
        if info is not None:
            model = _models_in(info.annotation)
    return model


def explain(error: ValidationError, root: type[BaseModel], places: Positions) -> list[Problem]:
    """Turn a validation error into problems, in the order of the file.

    Errors of the alternatives of one union become one problem, and a key that is missing because
    it is misspelt is reported as misspelt only.
    """
    groups: dict[Path, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        loc: Path = detail["loc"]
        whole = detail["type"] in {"missing", "extra_forbidden"}
        groups.setdefault(loc if whole else places.resolve(loc), []).append(detail)
    _drop_consequences(groups)
    found = [_problem(path, details, root, places) for path, details in groups.items()]
    return sorted(found, key=lambda p: (p.place.line, p.place.column) if p.place else (0, 0))


def _drop_consequences(groups: dict[Path, list[ErrorDetails]]) -> None:
    missing = [p for p, ds in groups.items() if ds[0]["type"] == "missing"]
    extra = [p for p, ds in groups.items() if ds[0]["type"] == "extra_forbidden"]
    for path in missing:
        beside = [e for e in extra if e[:-1] == path[:-1]]
        if any(nearest(e[-1], [str(path[-1])]) for e in beside):
            del groups[path]


def _problem(
    path: Path, details: list[ErrorDetails], root: type[BaseModel], places: Positions
) -> Problem:
    detail = details[0]
    kind, loc = detail["type"], detail["loc"]
    if kind == "extra_forbidden":
        model = model_at(root, loc[:-1])
        known = sorted(model.model_fields) if model is not None else []
        return Problem(
            f"unknown key '{loc[-1]}'{_inside(loc[:-1], places)}",
            places.find(loc, key=True),
            expected=one_of(known),
            help=did_you_mean(loc[-1], known),
        )
    if kind == "missing":
        key = str(loc[-1])
        return Problem(
            f"key '{key}' is missing{_inside(loc[:-1], places)}",
            places.find(loc[:-1], key=True),
            expected=_description(root, loc),
        )
    if kind == "value_error":
        return Problem(detail["msg"].removeprefix("Value error, "), places.find(path))
    expected, words = _expected(details)
    if kind == "string_pattern_mismatch":
        # The pattern itself says little to an author; the field's description says it in words.
        expected = _description(root, loc) or expected
    return Problem(
        f"invalid value{_of(path)}",
        places.find(path),
        expected=expected,
        seen=show(detail["input"]),
        help=did_you_mean(detail["input"], words) if isinstance(detail["input"], str) else "",
    )


def _description(root: type[BaseModel], loc: Sequence[str | int]) -> str:
    """What the model says of the field at ``loc``, or ``""``."""
    model = model_at(root, loc[:-1])
    info = model.model_fields.get(str(loc[-1])) if model is not None else None
    return (info.description or "") if info is not None else ""


def _expected(details: list[ErrorDetails]) -> tuple[str, list[str]]:
    """What would have been valid, and the words among it."""
    parts: list[str] = []
    words: list[str] = []
    for detail in details:
        kind, context = detail["type"], detail.get("ctx", {})
        if kind == "literal_error":
            found = re.findall(r"'([^']*)'", str(context["expected"]))
            words += found
            parts += found or [str(context["expected"]).replace("True", "true")]
        elif kind in _BOUNDS:
            key, text = _BOUNDS[kind]
            parts.append(f"{text} {context[key]:g}")
        elif kind == "too_short":
            parts.append(f"at least {context['min_length']} item")
        else:
            parts.append(_TYPES.get(kind, detail["msg"]))
    unique = list(dict.fromkeys(parts))
    return " or ".join(unique) if len(unique) < 3 else f"one of {', '.join(unique)}", words


def _inside(loc: Path, places: Positions) -> str:
    name = _name(places.resolve(loc))
    return f" in {name}" if name else ""


def _of(path: Path) -> str:
    name = _name(path)
    return f" of {name}" if name else ""


def _name(path: Path) -> str:
    """``steps[2].call`` for ``("steps", 2, "call")``."""
    text = ""
    for element in path:
        text += f"[{element}]" if isinstance(element, int) else f".{element}"
    return text.removeprefix(".")
