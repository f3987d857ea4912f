"""Strategies follow the types and constraints of a model, and hints say what types do not."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.generate.fields import (
    Hint,
    Hints,
    UnknownTypeError,
    of_field,
    of_model,
    one_key,
    weighted,
)

Word = Annotated[str, Field(min_length=1, pattern=r"^[a-z]+$")]


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    small: int = Field(default=1, ge=1, le=4)


class Every(BaseModel):
    """One field of each kind that models have."""

    model_config = ConfigDict(extra="forbid", strict=True)

    must: Word
    flag: bool = False
    number: int = Field(default=0, ge=0, lt=300)
    narrow: int = Field(default=4_711, ge=4_711, le=4_712)
    wide: int | None = Field(default=None, gt=2**40)
    share: float = Field(default=0.5, gt=0, lt=1)
    rate: float = Field(default=0.2, gt=0.1, lt=0.3)
    code: str = Field(default="AB", pattern=r"^[A-Z]{2}$")
    words: list[Word] = Field(default_factory=list)
    table: dict[str, int] = Field(default_factory=dict)
    choice: Literal["x", "y"] = "x"
    either: int | Literal["all"] = "all"
    nothing: Literal["z"] | None = "z"
    inner: Inner = Inner()
    anything: Any = None


class OneKey(BaseModel):
    left: Literal[True] | None = None
    right: Literal[True] | None = None
    gone: Literal[True] | None = None

    @property
    def verb(self) -> str:
        return next(iter(self.model_fields_set))

    @model_validator(mode="after")
    def _one(self) -> OneKey:
        assert len(self.model_fields_set) == 1
        return self


class Odd(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    strange: complex = 0j


FEW = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@FEW
@given(of_model(Every, Hints()))
def test_mapping_drawn_by_types_alone_fits_its_model(data: dict[str, Any]) -> None:
    Every.model_validate(data)


@pytest.mark.parametrize("name", list(Every.model_fields))
def test_field_without_a_hint_has_values_of_its_type(name: str) -> None:
    @FEW
    @given(of_field(Every, name, Hints()))
    def check(value: Any) -> None:
        Every.model_validate({"must": "a", name: value})

    check()


def _seen(strategy: st.SearchStrategy[Any], count: int = 200) -> list[Any]:
    found: list[Any] = []

    @settings(max_examples=count, deadline=None, derandomize=True, database=None)
    @given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found


def test_each_field_is_drawn_now_and_then_and_required_ones_always() -> None:
    seen = _seen(of_model(Every, Hints()), 600)
    assert {name for data in seen for name in data} == set(Every.model_fields)
    assert all("must" in data for data in seen)


def test_null_is_drawn_where_it_says_something_and_not_where_it_is_the_default() -> None:
    assert None in _seen(of_field(Every, "nothing", Hints()))
    assert None not in _seen(of_field(Every, "wide", Hints()))


def test_hint_gives_the_values_of_a_field_and_how_often_it_is_given() -> None:
    hints = Hints(fields={(Every, "number"): Hint(st.just(7), "always")})
    assert {data["number"] for data in _seen(of_model(Every, hints))} == {7}


def test_excluded_field_is_never_drawn() -> None:
    seen = _seen(of_model(Every, Hints(excluded={(Every, "flag"): "no reason"})), 400)
    assert not any("flag" in data for data in seen)


def test_model_of_one_key_gets_exactly_one_of_those_that_are_not_excluded() -> None:
    hints = Hints(excluded={(OneKey, "gone"): "no reason"})
    seen = _seen(of_model(OneKey, hints))
    assert {tuple(data) for data in seen} == {("left",), ("right",)}


def test_weights_decide_how_often_a_key_is_drawn_and_zero_leaves_it_out() -> None:
    one = one_key(OneKey, Hints(), {"left": 9, "right": 1, "gone": 0})
    seen = [name for data in _seen(st.lists(one, min_size=20, max_size=20), 20) for name in data]
    keys = [tuple(each) for each in seen]
    assert set(keys) == {("left",), ("right",)}
    assert keys.count(("left",)) > 5 * keys.count(("right",))


def test_unknown_type_is_refused_with_the_field_and_its_model() -> None:
    with pytest.raises(UnknownTypeError, match=r"'strange' of Odd.*complex"):
        of_field(Odd, "strange", Hints())


def test_weights_of_more_than_a_hundred_are_refused() -> None:
    with pytest.raises(ValueError, match="100"):
        weighted([(60, st.just(1)), (41, st.just(2))])
