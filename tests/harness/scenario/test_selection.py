"""From names of a user to scenario files."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.scenario import loader, selection
from harness.scenario.model import Scenario
from harness.scenario.selection import (
    InvalidScenariosError,
    SelectionError,
    load_all,
    matching,
    releases_of,
    select,
)

TEXT = """\
title: {title}
promise: p
refs: [vllm#1]
steps:
  - fence: true
"""


@pytest.fixture
def built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the built-in scenarios."""
    folder = tmp_path / "shipped"
    for name in ("waves/stale", "waves/current", "routing/rank-given", "requests/deep/one"):
        write(folder / f"{name}.yaml", title=name.upper())
    write(folder / ".hidden" / "x.yaml")
    (folder / "schema.json").write_text("{}")
    monkeypatch.setattr(loader, "builtin_dir", lambda: folder)
    monkeypatch.setattr(selection, "builtin_dir", lambda: folder)
    return folder


def write(path: Path, title: str = "t") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEXT.format(title=title))
    return path


def ids(*names: str) -> list[str]:
    return [found.id for found in select(names)]


def failure(*names: str) -> tuple[str, str]:
    with pytest.raises(SelectionError) as caught:
        select(names)
    return str(caught.value), caught.value.help


def test_nothing_named_selects_all_built_in_sorted_by_path(built_in: Path) -> None:
    assert ids() == ["requests/deep/one", "routing/rank-given", "waves/current", "waves/stale"]


def test_no_built_in_scenario_is_an_error(built_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = built_in / "empty"
    monkeypatch.setattr(selection, "builtin_dir", lambda: empty)
    assert failure() == (f"no scenarios in {empty}", "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("waves/stale", ["waves/stale"]),
        ("waves/stale.yaml", ["waves/stale"]),
        ("waves", ["waves/current", "waves/stale"]),
        ("waves/", ["waves/current", "waves/stale"]),
        ("requests/deep", ["requests/deep/one"]),
    ],
)
def test_id_or_chapter_selects_built_in_scenarios(
    built_in: Path, name: str, expected: list[str]
) -> None:
    assert ids(name) == expected


def test_order_is_the_one_of_the_names_and_doubles_count_once(built_in: Path) -> None:
    assert ids("waves/stale", "routing", "waves") == [
        "waves/stale",
        "routing/rank-given",
        "waves/current",
    ]


def test_file_anywhere_is_selected_by_its_path(built_in: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "mine.yaml")
    assert [(f.id, f.path) for f in select([str(path)])] == [("mine", path)]


def test_folder_anywhere_gives_ids_below_it(built_in: Path, tmp_path: Path) -> None:
    write(tmp_path / "own" / "a" / "x.yaml")
    write(tmp_path / "own" / "y.yml")
    assert ids(str(tmp_path / "own")) == ["a/x", "y"]


def test_folder_of_built_in_scenarios_keeps_their_ids(built_in: Path) -> None:
    assert ids(str(built_in / "waves")) == ["waves/current", "waves/stale"]


def test_unknown_name_suggests_the_nearest(built_in: Path) -> None:
    assert failure("waves/stail") == (
        "no scenario, chapter, file or folder is called 'waves/stail'",
        "did you mean 'waves/stale'?",
    )
    assert failure("wave")[1] == "did you mean 'waves'?"
    assert failure("rank-givn")[1] == "did you mean 'routing/rank-given'?"
    assert failure("xyzzy")[1] == (
        "chapters are requests, routing, waves; see `wavecheck list scenarios`"
    )


def test_missing_file_is_named_as_a_file(built_in: Path) -> None:
    assert failure("none.yaml") == ("no such file: none.yaml", "")


def test_folder_without_scenarios_is_an_error(built_in: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert failure(str(empty)) == (
        f"no scenarios in {empty}",
        "scenario files end in .yaml or .yml",
    )


def test_two_files_with_one_id_are_both_named(built_in: Path, tmp_path: Path) -> None:
    first, second = write(tmp_path / "a" / "x.yaml"), write(tmp_path / "b" / "x.yaml")
    assert failure(str(first), str(second)) == (
        f"two files have the id 'x': {first} and {second}",
        "rename one of them",
    )


def test_word_matches_id_or_title_in_any_case(built_in: Path) -> None:
    loaded = load_all(select([]))
    assert [one.id for one in matching(loaded, "WAVES")] == ["waves/current", "waves/stale"]
    assert [one.id for one in matching(loaded, "rank-GIVEN")] == ["routing/rank-given"]
    assert matching(loaded, "nothing") == []


def test_all_invalid_files_are_reported_together(built_in: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "own").mkdir(exist_ok=True)
        (tmp_path / "own" / f"{name}.yaml").write_text("title: 1\n")
    write(tmp_path / "own" / "c.yaml")
    with pytest.raises(InvalidScenariosError) as caught:
        load_all(select([str(tmp_path / "own")]))
    assert [error.path.name for error in caught.value.errors] == ["a.yaml", "b.yaml"]


def test_releases_of_a_scenario_are_those_of_its_specifier() -> None:
    data = {"title": "t", "promise": "p", "refs": ["r"], "steps": [{"fence": True}]}
    scenario = Scenario.model_validate({**data, "profiles": ">=0.24,<0.26"})
    assert releases_of(scenario, ("0.23.0", "0.24.0", "0.25.1", "0.26.0")) == ["0.24.0", "0.25.1"]
    assert releases_of(Scenario.model_validate(data), ("0.22.0",)) == ["0.22.0"]


def test_chapter_comes_before_a_folder_of_the_same_name_which_is_told(
    built_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "waves" / "own.yaml")
    monkeypatch.chdir(tmp_path)
    assert ids("waves") == ["waves/current", "waves/stale"]
    assert ids("./waves") == ["own"]
    assert selection.shadowed(["waves", "./waves", "routing"]) == ["waves"]
    monkeypatch.chdir(built_in)
    assert selection.shadowed(["waves"]) == []
