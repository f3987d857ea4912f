"""Each template gives a valid scenario that holds, and that its mutant violates."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from harness.authoring.order import (
    ARGUMENTS,
    BEFORE,
    ENGINES_MAX,
    WIRE,
    Asked,
    Order,
    OrderError,
    asked,
    filled,
    inferred,
)
from harness.authoring.starting import STARTS
from harness.authoring.writing import MODELINE, mutant_of, text_of, to_see
from harness.cli.main import cli
from harness.invariants import discover as discover_invariants
from harness.runner import RunOptions, run_scenario
from harness.scenario.checks_utilities import api_methods
from harness.scenario.loader import LoadedScenario, parse
from harness.verdict import EXPECTATION, HELD, VIOLATED

HANG, FAIL = Asked(1, "add_lora"), Asked(0, "add_lora")
BOTH = (Asked(0, "sleep"), Asked(1, "sleep"))
ON_SIM = [name for name, start in STARTS.items() if "sim" in start.targets]
CALLS = {
    "one hangs": ((HANG,), ()),
    "the first hangs": ((Asked(0, "sleep"),), ()),
    "both hang": ((Asked(0, "sleep"), Asked(1, "sleep")), ()),
    "one fails": ((), (Asked(1, "pause"),)),
    "both fail": ((), (FAIL, Asked(1, "add_lora", "x: y #z, 'q' \"r\" [s]"))),
    "one hangs beside a failing one": ((HANG,), (FAIL,)),
    "one hangs, then fails": ((FAIL,), (FAIL,)),
    "the text is a number": ((), (Asked(0, "add_lora", "12"),)),
    "the text is a word of YAML": ((), (Asked(0, "add_lora", "null"),)),
}


def loaded(order: Order) -> LoadedScenario:
    return parse(text_of(filled(order), "x.json"), Path("x.yaml"), name="x")


def yaml_lines(text: str) -> list[str]:
    return [ln for ln in text.splitlines() if ln.strip() and not ln.lstrip().startswith("#")]


@pytest.mark.parametrize("engines", [None, 3, 5])
@pytest.mark.parametrize("name", ON_SIM)
def test_template_holds_in_simulation_and_judges_what_it_is_about(
    name: str, engines: int | None
) -> None:
    order = Order(STARTS[name], engines=engines)
    result = run_scenario(loaded(order), RunOptions())
    assert result.status == HELD, (result.error, result.reason)
    judged = {v.invariant for v in result.verdicts if v.verdict == HELD}
    # Where nobody is let in, only a fault brings the situation about that the gate guards.
    assert name == "startup" or set(STARTS[name].invariants) <= judged
    assert {e.status for e in result.expectations} == {HELD}


@pytest.mark.parametrize("name", [n for n in ON_SIM if mutant_of(filled(Order(STARTS[n])))])
def test_template_is_violated_by_the_mutant_that_its_comment_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the very command of the comment."""
    monkeypatch.chdir(tmp_path)
    text = text_of(filled(Order(STARTS[name])), None, "x.yaml")
    Path("x.yaml").write_text(text, encoding="utf-8")
    (command,) = re.findall(r"^# To see it fail: wavecheck (.*)$", text, re.MULTILINE)
    done = CliRunner().invoke(cli, [*shlex.split(command), "--json", "r.json"])
    assert done.exit_code == 1, done.output
    assert "1 violated" in done.output


def test_templates_with_a_known_bug_are_all_but_a_few() -> None:
    without = [name for name in STARTS if not mutant_of(filled(Order(STARTS[name])))]
    assert without == ["utility", "frontend"]


@pytest.mark.parametrize("name", ["http", "utility", "wave"])
def test_template_holds_on_a_server_where_it_says_so(name: str) -> None:
    pytest.importorskip("aiohttp")
    assert "vllm-rs" in STARTS[name].targets
    options = RunOptions(target="vllm-rs", frontend="reference")
    assert run_scenario(loaded(Order(STARTS[name])), options).status == HELD


@pytest.mark.parametrize("name", ["fan-out", "abort", "lockstep"])
def test_template_holds_over_real_sockets(name: str) -> None:
    assert run_scenario(loaded(Order(STARTS[name])), RunOptions(target="zmq")).status == HELD


@pytest.mark.parametrize("method", api_methods())
def test_call_of_any_method_holds_with_and_without_trouble(method: str) -> None:
    for name in ("utility", "fan-out"):
        result = run_scenario(loaded(Order(STARTS[name], method=method)), RunOptions())
        assert result.status == HELD, (name, result.expectations)


def test_names_on_the_wire_and_arguments_are_of_methods() -> None:
    assert {*ARGUMENTS, *WIRE, *BEFORE, *BEFORE.values()} <= set(api_methods())


@pytest.mark.parametrize("case", CALLS)
def test_call_holds_whatever_engines_make_of_it(case: str) -> None:
    hangs, fails = CALLS[case]
    order = Order(STARTS["utility"], hangs=hangs, fails=fails)
    result = run_scenario(loaded(order), RunOptions())
    assert result.status == HELD, result.expectations
    if mutant := mutant_of(filled(order)):
        broken = run_scenario(loaded(order), RunOptions(mutant=mutant))
        assert broken.status == VIOLATED


def test_request_that_hangs_holds_and_waits() -> None:
    order = Order(STARTS["request"], hangs=(Asked(0, "add"),))
    assert run_scenario(loaded(order), RunOptions()).status == HELD
    assert "{op: chat, outcome: pending}" in text_of(filled(order), None)


def test_one_hanging_beside_a_failing_engine_takes_fifteen_lines_and_turns_red() -> None:
    """What a new user would write: no more, and the old fan-out does not pass."""
    order = filled(Order(STARTS["utility"], hangs=(HANG,), fails=(FAIL,)))
    text = text_of(order, None)
    assert len(yaml_lines(text)) <= 15
    scenario = parse(text, Path("x.yaml"), name="x")
    assert run_scenario(scenario, RunOptions()).status == HELD
    broken = run_scenario(scenario, RunOptions(mutant="fail-fast-fan-out"))
    assert broken.status == VIOLATED
    violated = {v.invariant for v in broken.verdicts if v.verdict == VIOLATED and v.level == "must"}
    assert violated == {"utility.settles-before-return"}
    assert [e.status for e in broken.expectations] == [VIOLATED, HELD]
    assert EXPECTATION not in violated


# --- the text -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STARTS)
def test_file_names_its_schema_first_and_explains_each_key_of_its_head(name: str) -> None:
    lines = text_of(filled(Order(STARTS[name], profiles=">=0.28")), "../s.json").splitlines()
    assert lines[0] == f"{MODELINE}../s.json"
    keys = [i for i, line in enumerate(lines) if re.match(r"[a-z_]+:", line)]
    bare = [lines[i] for i in keys if not lines[i - 1].startswith("#")]
    assert [line for line in bare if not line.startswith("promise:")] == []
    assert not any(len(line) > 100 for line in lines)


@pytest.mark.parametrize("name", STARTS)
def test_bare_file_says_the_same_without_comments(name: str) -> None:
    order = filled(Order(STARTS[name]))
    bare = text_of(filled(Order(STARTS[name], bare=True)), "s.json")
    assert "#" not in bare.partition("\n")[2].replace("vllm#", "")
    assert yaml.safe_load(bare) == yaml.safe_load(text_of(order, "s.json"))


def test_file_without_a_schema_has_no_line_for_it() -> None:
    assert MODELINE not in text_of(filled(Order(STARTS["wave"])), None)


def test_head_takes_what_the_user_says_whatever_it_holds() -> None:
    order = Order(
        STARTS["abort"],
        title="it's: a #title",
        promise="- [so] {what}?\t" + "long " * 60,
        refs=("https://example.org/a#b", "vllm#1"),
        profiles=">=0.28,<0.33",
    )
    scenario = loaded(order).scenario
    assert scenario.title == order.title
    assert scenario.promise == order.promise
    assert scenario.refs == list(order.refs)
    assert scenario.profiles == order.profiles


def test_command_that_shows_a_bug_names_a_release_only_where_it_must() -> None:
    def shown(name: str, profiles: str | None = None) -> str:
        return to_see(filled(Order(STARTS[name], profiles=profiles)), "F")

    assert shown("abort") == "wavecheck run F --mutant stream-dropped-without-abort"
    assert shown("wave").endswith("--mutant first-request-never-told --profile 0.32.0")
    assert shown("wave", "<0.33").endswith("--mutant first-request-never-told")
    assert shown("wave", ">=0.33") == ""


def test_starts_name_invariants_that_there_are() -> None:
    known = {cls.id for cls in discover_invariants()}
    assert {name for start in STARTS.values() for name in start.invariants} <= known


# --- what makes no scenario -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Order(STARTS["wave"], hangs=(HANG,)), "--hang does not go with the template wave"),
        (Order(STARTS["request"], fails=(FAIL,)), "--fail does not go with the template request"),
        (Order(STARTS["wave"], engines=1), "--engines 1 does not go with the template wave"),
        (Order(STARTS["utility"], engines=2, hangs=(Asked(2, "sleep"),)), "there is no rank 2"),
        (Order(STARTS["utility"], hangs=(HANG, HANG)), "--hang names one rank twice"),
        (Order(STARTS["utility"], hangs=(HANG,), fails=(Asked(0, "sleep"),)), "add_lora and sleep"),
        (Order(STARTS["utility"], method="add_lor"), "the API has no method 'add_lor'"),
        (Order(STARTS["request"], hangs=(HANG,)), "a request brings no message 'add_lora'"),
        (Order(STARTS["request"], hangs=(Asked(0, "add"), Asked(1, "add"))), "at one rank"),
        (
            Order(STARTS["request"], method="sleep"),
            "--method does not go with the template request",
        ),
        (Order(STARTS["wave"], method="sleep"), "--method does not go with the template wave"),
        (Order(STARTS["utility"], engines=71), "--engines 71 does not go"),
        (Order(STARTS["fan-out"], engines=1), "--engines 1 does not go"),
        (Order(STARTS["fan-out"], hangs=BOTH), "--hang names every engine"),
        (Order(STARTS["fan-out"], fails=BOTH), "--fail names every engine"),
    ],
)
def test_order_that_makes_no_scenario_is_refused_with_what_would(
    order: Order, message: str
) -> None:
    with pytest.raises(OrderError) as refused:
        filled(order)
    assert message in str(refused.value)
    assert refused.value.expected


@pytest.mark.parametrize(
    "words", ["", "1", "add_lora", "x:sleep", "1:", "1:a b", "-1:sleep", "1:sleep:x"]
)
def test_behaviour_that_cannot_be_read_is_refused_with_the_form(words: str) -> None:
    with pytest.raises(OrderError) as refused:
        asked("--hang", words)
    assert "RANK:WHAT" in refused.value.expected


def test_behaviours_are_read_and_imply_a_template() -> None:
    assert asked("--fail", "0:add_lora:no: memory") == Asked(0, "add_lora", "no: memory")
    assert inferred([HANG], [], None) == "utility"
    assert inferred([], [FAIL], None) == "utility"
    assert inferred([], [], "sleep") == "utility"
    assert inferred([Asked(0, "add")], [], None) == "request"
    assert inferred([], [], None) is None


@pytest.mark.parametrize("option", ["--hang", "--fail"])
@pytest.mark.parametrize("name", ["utility", "fan-out"])
def test_rank_beyond_the_engines_of_a_template_is_refused_and_makes_no_more_of_them(
    name: str, option: str
) -> None:
    named = (Asked(4, "sleep"),)
    order = Order(STARTS[name], **{option.strip("-") + "s": named})
    with pytest.raises(OrderError) as refused:
        filled(order)
    assert str(refused.value) == (
        f"{option}: there is no rank 4: the scenario has 2 engines, as the template {name} has by"
        " itself"
    )
    assert refused.value.expected == "a rank from 0 to 1"
    assert refused.value.help == "--engines 5 makes ranks 0 to 4"
    assert filled(replace(order, engines=5)).count == 5


def test_rank_that_no_number_of_engines_has_is_refused_without_an_advice() -> None:
    with pytest.raises(OrderError) as refused:
        filled(Order(STARTS["utility"], engines=3, hangs=(Asked(ENGINES_MAX, "sleep"),)))
    assert str(refused.value) == "--hang: there is no rank 64: the scenario has 3 engines"
    assert refused.value.help == ""


@pytest.mark.parametrize(
    ("asked_for", "hangs", "fails"),
    [
        ({}, [1], [0]),
        ({"engines": 4}, [3], [0]),
        ({"hangs": (Asked(0, "sleep"),)}, [0], [1]),
        ({"fails": (Asked(1, "sleep"),)}, [0], [1]),
        ({"fails": (Asked(0, "sleep"),), "engines": 3}, [2], [0]),
    ],
)
def test_fan_out_adds_what_is_not_asked_for_at_another_engine(
    asked_for: dict[str, Any], hangs: list[int], fails: list[int]
) -> None:
    order = filled(Order(STARTS["fan-out"], **asked_for))
    assert [one.rank for one in order.hangs] == hangs
    assert [one.rank for one in order.fails] == fails


def test_mutant_that_waits_for_all_engines_but_the_last_is_not_promised_where_there_is_one() -> (
    None
):
    alone = filled(Order(STARTS["utility"], engines=1, hangs=(Asked(0, "sleep"),)))
    assert mutant_of(alone) == ""
    last = filled(Order(STARTS["utility"], engines=2, hangs=(Asked(1, "sleep"),)))
    assert mutant_of(last) == "last-engine-not-awaited"
