"""Every key, verb, action and word of a scenario file has words, and no key is passed over."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from harness.authoring.words import VOCABULARY
from harness.authoring.words.behaving import behaviours
from harness.authoring.words.expecting import EXPECT
from harness.authoring.words.head import further, known_text
from harness.authoring.words.taking_part import topology_sentences
from harness.authoring.words.told import OneOf, Told, listed, ordinal, ranks_text, shown, who
from harness.scenario import model
from mock_engines.behaviours import model as behaviour
from tests.support.collection import every_scenario
from tests.support.models import models_of, words_of

ELSEWHERE = {
    model.Scenario: {
        *("title", "promise", "refs", "profiles", "known", "invariants", "topology", "engines"),
        "steps",
    },
    model.LinkStep: {"clear"},
}
"""Keys told by other means, each with a test of its own here or in ``test_explanation``."""


MODELS = sorted(set(models_of(model.Scenario)), key=lambda cls: cls.__name__)
MAPPINGS = [cls for cls in MODELS if isinstance(VOCABULARY.get(cls), Told)]
SAMPLES: dict[type[BaseModel], dict[str, Any]] = {
    cls: sample
    for name, sample in yaml.safe_load(
        (Path(__file__).parent / "samples.yaml").read_text(encoding="utf-8")
    ).items()
    for cls in MODELS
    if cls.__name__ == name
}
ONE_OF = [cls for cls in MODELS if isinstance(VOCABULARY.get(cls), OneOf)]
named = pytest.mark.parametrize("cls", MAPPINGS, ids=lambda cls: cls.__name__)


def text_of(item: BaseModel) -> str:
    """All that is said of a mapping."""
    if isinstance(item, model.Topology):
        return " ".join(topology_sentences(item))
    if isinstance(item, behaviour.EngineSpec):
        return f"{who(item.engine)}: {'; '.join(behaviours(item))}"
    if isinstance(item, model.Scenario):
        return " ".join(further(item))
    return VOCABULARY[type(item)].say(item)


def made(cls: type[BaseModel], values: dict[str, Any]) -> BaseModel:
    """An item with some keys, whatever the checks of the model say of their combination."""
    parsed = {}
    for key, value in values.items():
        whole = {**SAMPLES[cls], key: value}
        parsed[key] = getattr(cls.model_validate(whole), key)
    return cls.model_construct(_fields_set=set(parsed), **parsed)


@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_model_of_the_file_has_words_for_each_of_its_keys(cls: type[BaseModel]) -> None:
    assert cls in VOCABULARY, "a new model needs a teller in harness/authoring/words"
    assert VOCABULARY[cls].keys == set(cls.model_fields)


def test_models_are_all_found() -> None:
    assert {cls.__name__ for cls in ONE_OF} == {"Step", "Action"}
    assert {"Scenario", "HttpStep", "Measured", "Notice", "Pace"} <= {c.__name__ for c in MAPPINGS}
    assert set(SAMPLES) == set(MAPPINGS)


@named
def test_sample_of_a_mapping_gives_every_key(cls: type[BaseModel]) -> None:
    assert set(SAMPLES[cls]) | ELSEWHERE.get(cls, set()) == set(cls.model_fields)


@named
def test_key_of_a_mapping_changes_what_is_said(cls: type[BaseModel]) -> None:
    """Leaving a key out, or another value where it must be there, gives another text."""
    silent = []
    whole = made(cls, SAMPLES[cls])
    before = text_of(whole)
    for key in set(SAMPLES[cls]) - ELSEWHERE.get(cls, set()):
        info = cls.model_fields[key]
        rest = {name: getattr(whole, name) for name in whole.model_fields_set - {key}}
        if info.is_required() or key in {"engine", "count"}:
            value = getattr(whole, key)
            rest[key] = other(cls, key, value)
        after = text_of(cls.model_construct(_fields_set=set(rest), **rest))
        if after == before:
            silent.append(key)
    # A list of ranks stands for the number of engines and the first rank.
    hidden = {"engines", "start_rank"} if cls is model.Topology else set()
    assert sorted(set(silent) - hidden) == []


def other(cls: type[BaseModel], key: str, value: Any) -> Any:
    """Another value for a key that must be there."""
    if key == "event":
        return "abort"
    if key == "count" and cls is model.Expect:
        return model.CountExpect(event="abort", equals=1)
    if key == "on":
        return "add"
    if key == "do":
        return [behaviour.Action(finish_only=True)]
    if isinstance(value, str):
        return f"{value}-other"
    if isinstance(value, list):
        return [*value, *value]
    return value + 1


@named
def test_word_of_a_key_has_words_of_its_own(cls: type[BaseModel]) -> None:
    """Each literal value of a key can be told, and is told unlike the others."""
    for key, info in cls.model_fields.items():
        words = list(dict.fromkeys(words_of(info.annotation)))
        if len(words) < 2 or key == "mended":
            continue
        rest = {k: v for k, v in SAMPLES[cls].items() if k != key}
        texts = {}
        for word in words:
            value = [word] if key == "skip" else word
            if cls is model.Expect and key == "connect":
                rest = {}
            texts[word] = text_of(made(cls, {**rest, key: value}))
        assert len(set(texts.values())) == len(words), (cls, key, texts)


def test_words_of_verbs_and_actions_with_choices_differ() -> None:
    for cls in ONE_OF:
        for key, info in cls.model_fields.items():
            words = [word for word in words_of(info.annotation) if isinstance(word, str)]
            texts = {VOCABULARY[cls].say(cls.model_validate({key: word})) for word in words}
            assert len(texts) == len(words), (cls, key)


def test_links_that_are_mended_are_told_apart_from_broken_ones() -> None:
    teller = VOCABULARY[model.LinkStep]
    mended = teller.say(model.LinkStep(engine=1, clear=True))
    assert mended == "the faults of what the client sends to engine 1 are taken away"


def test_engines_of_a_topology_are_told_by_number_or_by_rank() -> None:
    def first(**keys: Any) -> str:
        return topology_sentences(model.Topology(**keys))[0]

    assert first() == "2 engines, ranks 0 and 1."
    assert first(engines=1) == "1 engine, rank 0."
    assert first(engines=9) == "9 engines, ranks 0 to 8."
    assert first(start_rank=4) == "2 engines, by their global ranks 4 and 5."
    assert first(ranks=[3, 8]) == "2 engines, by their global ranks 3 and 8."


def test_known_fault_is_told_with_its_window() -> None:
    known = model.Known(invariant="a.b", introduced_in="0.24.0", reason="r", link="vllm#1")
    assert known_text([known]) == ["a.b is violated by real frontends, from 0.24.0 on: r (vllm#1)"]


def test_null_that_means_something_is_told() -> None:
    assert EXPECT.say(model.Expect(op="a", value=None)) == "`a`, with value null"
    stream = VOCABULARY[behaviour.Stream]
    assert stream.say(behaviour.Stream(finish=None)) == "streams tokens, without an end"
    assert stream.say(behaviour.Stream(stop_reason=None)) == "streams tokens"


def test_every_key_of_every_scenario_is_told() -> None:
    """Nothing in a built-in file is passed over: each part of it says something."""
    for loaded in every_scenario():
        for item in parts_of(loaded.scenario):
            assert text_of(item), (loaded.id, item)


def parts_of(item: BaseModel) -> Iterator[BaseModel]:
    """The mappings inside an item that say something."""
    for key in item.model_fields_set:
        value = getattr(item, key)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, BaseModel):
                if one.model_fields_set:
                    yield one
                yield from parts_of(one)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (listed([]), ""),
        (listed(["a"]), "a"),
        (listed("abc", "or"), "a, b or c"),
        (who([1, 2]), "each of engines 1 and 2"),
        (who([3]), "engine 3"),
        (ranks_text([0, 2]), "ranks 0 and 2"),
        (shown("x" * 300), f'"{"x" * 199}… (302 characters)'),
        (
            " ".join(map(ordinal, [1, 2, 3, 4, 11, 12, 13, 21, 112])),
            "1st 2nd 3rd 4th 11th 12th 13th 21st 112th",
        ),
    ],
)
def test_phrase_reads_well(said: str, wanted: str) -> None:
    assert said == wanted


def test_samples_are_unlike_each_other_in_no_hidden_way() -> None:
    """A key that a sample leaves at its default would be compared with itself."""
    same = [
        (cls.__name__, key)
        for cls, key in itertools.chain.from_iterable(
            ((cls, key) for key in SAMPLES[cls]) for cls in MAPPINGS
        )
        if not cls.model_fields[key].is_required()
        and key != "format"
        and getattr(cls.model_validate(SAMPLES[cls]), key)
        == cls.model_fields[key].get_default(call_default_factory=True)
    ]
    assert same == []
