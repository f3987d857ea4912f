"""Which part of a behaviour file concerns which engine; static checks of actions."""

import pytest
from pydantic import ValidationError

from mock_engines.behaviours.base import Behaviour
from mock_engines.behaviours.model import Action, EngineSpec, Rule
from mock_engines.behaviours.registry import (
    _register,
    action_problems,
    behaviours,
    spec_problems,
)
from mock_engines.matching import Message, RuleBook
from mock_engines.specs import check_ranks, script_for


def make(**parts):
    return EngineSpec.model_validate(parts)


def opens(name):
    return {"on": "add", "do": [{"open": name}]}


SPECS = [
    make(engine="all", rules=[opens("all")], join={"gate": "all"}, process=False),
    make(engine=[1, 2], rules=[opens("list")], join={"gate": "list"}),
    make(engine=1, rules=[opens("one")]),
    make(engine=1, rules=[opens("one again")]),
]


def test_rules_of_specific_entries_come_first_and_all_are_kept():
    script = script_for(1, SPECS)
    assert [rule.do[0].open for rule in script.rules] == ["one", "one again", "list", "all"]
    assert (script.join.gate, script.process) == ("list", False)


def test_entry_for_all_concerns_an_engine_that_nobody_names():
    script = script_for(7, SPECS)
    assert [rule.do[0].open for rule in script.rules] == ["all"]
    assert script.join.gate == "all"


def test_engine_without_entry_joins_and_behaves_well():
    script = script_for(0, [])
    assert (script.rules, script.join.gate, script.process, script.vanishes) == (
        (),
        None,
        None,
        False,
    )


@pytest.mark.parametrize(
    ("action", "vanishes", "needs_process"),
    [
        ({"die": "vanish"}, True, True),
        ({"stall": "g"}, False, True),
        ({"die": "close"}, False, False),
    ],
)
def test_script_says_whether_it_does_what_only_processes_suffer(action, vanishes, needs_process):
    script = script_for(0, [make(rules=[opens("g"), {"on": "add", "do": [action]}])])
    assert (script.vanishes, script.needs_process) == (vanishes, needs_process)


@pytest.mark.parametrize(
    ("ranks", "specs", "text"),
    [
        ([], [], "at least one engine"),
        ([65535, 65536], [], "two-byte engine identity limit"),
        ([-1], [], "rank -1"),
        ([0, 1, 0], [], "rank 0 is given twice"),
        ([4, 5], [make(engine=0)], r"engine 0, which does not take part \(ranks: 4, 5\)"),
        ([4, 5], [make(engine=[4, 6])], "engine 6"),
    ],
)
def test_impossible_ranks_are_refused_with_their_reason(ranks, specs, text):
    with pytest.raises(ValueError, match=text):
        check_ranks(ranks, specs)


def test_highest_rank_is_accepted():
    check_ranks([65534, 65535], [make(engine=65535), make(engine="all")])


def test_every_key_of_an_action_has_exactly_one_behaviour():
    assert sorted(behaviours()) == sorted(Action.model_fields)


@pytest.mark.parametrize(
    ("kind", "action", "text"),
    [
        ("add", {"reply": 1}, "'reply' is for utility, not for 'add'"),
        ("utility", {"stream": {}}, "'stream' is for add, not for 'utility'"),
        ("act", {"default": True}, "not for 'act'"),
        ("act", {"raw": {"frames": ["zz"]}}, "neither hexadecimal"),
    ],
)
def test_action_that_fits_no_message_is_a_problem(kind, action, text):
    (problem,) = action_problems([Action.model_validate(action)], kind)
    assert text in problem


def test_spec_problem_names_entry_rule_and_action():
    spec = make(rules=[opens("g"), {"on": "add", "do": [{"open": "g"}, {"fail": "x"}]}])
    assert spec_problems([make(), spec]) == [
        "entry 1, rule 1: do[1]: 'fail' is for utility, not for 'add'"
    ]


@pytest.mark.parametrize("kind", ["add", "abort", "utility", "start_wave"])
def test_predicate_that_names_no_field_of_the_message_is_a_problem(kind):
    rules = [{"on": kind, "where": {"engine": 0, "waave": 1}, "do": {"drop": True}}]
    (problem,) = spec_problems([make(rules=rules)])
    assert problem.startswith(f"entry 0, rule 0: where: 'waave' is no field of '{kind}'; it has")
    assert "engine" in problem


ALONE = (
    *("reply", "reply_with", "stream", "output", "stats", "flood"),
    *("wave_complete", "start_wave"),
)


@pytest.mark.parametrize("verb", [verb for verb in Action.model_fields if verb not in ALONE])
def test_action_that_means_nothing_without_a_value_is_refused(verb):
    with pytest.raises(ValidationError, match=f"'{verb}' needs a value"):
        Action.model_validate({verb: None})


@pytest.mark.parametrize("verb", ALONE)
def test_action_that_means_something_without_a_value_is_taken(verb):
    assert Action.model_validate({verb: None}).verb == verb


def test_action_of_several_keys_or_of_none_is_refused():
    with pytest.raises(ValidationError, match="this one has apply, drop"):
        Action.model_validate({"drop": True, "apply": True})
    with pytest.raises(ValidationError, match="this one has nothing"):
        Action.model_validate({})


def test_rule_that_names_a_method_never_fits_a_message_that_is_no_call():
    rule = Rule.model_validate({"on": "add", "method": "*", "do": {"drop": True}})
    plan = RuleBook([rule]).plan(Message("add"), ["a"])
    assert plan.rule is None


class Unknown(Behaviour):
    verbs = ("juggle",)


class Again(Behaviour):
    verbs = ("hang",)


def test_behaviour_of_a_verb_that_no_action_has_or_that_is_taken_is_refused():
    with pytest.raises(TypeError, match=f"{__name__}: 'juggle' is no key of an action"):
        _register(Unknown(), {})
    found = {}
    _register(Again(), found)
    with pytest.raises(TypeError, match=f"'hang' is carried out by {__name__} and by {__name__}"):
        _register(Again(), found)
    assert list(found) == ["hang"]
