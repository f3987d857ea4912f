"""What a scenario file says, in sentences: words for every key, verb and action of the model."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from harness.authoring.words import (
    actions,
    behaving,
    expecting,
    head,
    matching,
    stepping,
    taking_part,
)
from harness.authoring.words.told import OneOf, Told

TELLERS: tuple[Told | OneOf, ...] = (
    *head.TELLERS,
    *taking_part.TELLERS,
    *behaving.TELLERS,
    *actions.TELLERS,
    *stepping.TELLERS,
    *matching.TELLERS,
    *expecting.TELLERS,
)

VOCABULARY: Mapping[type[BaseModel], Told | OneOf] = {teller.model: teller for teller in TELLERS}
"""Who tells each model of the file; ``tests/harness/authoring`` fails where a key has no words."""
