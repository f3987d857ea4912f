"""Looks into the types of a model."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel


def models_of(annotation: object) -> Iterator[type[BaseModel]]:
    """Every model inside an annotation, and inside the fields of those."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for info in annotation.model_fields.values():
            yield from models_of(info.annotation)
    for part in typing.get_args(annotation):
        yield from models_of(part)


def words_of(annotation: object) -> Iterator[Any]:
    """Every word that an annotation allows."""
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        yield from parts
    else:
        for part in parts:
            yield from words_of(part)
