"""Which files become tests, what these are called, and how they are selected."""

from __future__ import annotations

import pytest

from harness.pytest_plugin.chapters import chapters_of
from harness.pytest_plugin.sniffing import is_scenario
from harness.scenario import selection
from tests.harness.pytest_plugin.conftest import TEXT

pytest_plugins = ["pytester"]

FOREIGN = {
    "workflow.yaml": "name: ci\non: push\njobs:\n  a:\n    steps:\n      - run: x\n",
    "chart.yml": "title: chart\nsteps:\n  - one\n",
    "nested.yaml": "book:\n  title: x\n  promise: y\n  refs: []\n  steps: []\n",
    "broken.yaml": "{{ template }}: [",
    "binary.yaml": "\x00\xff",
    ".hidden.yaml": TEXT.format(title="x"),
    "notes.txt": TEXT.format(title="x"),
}


def test_scenario_names_and_order_are_those_of_the_list(run, pytester):
    folder = selection.builtin_dir() / "waves"
    result = run(folder, "--collect-only", "-q")
    names = [line.partition("::")[2] for line in result.outlines if "::" in line]
    assert sorted(names) == sorted(f.id for f in selection.builtin() if f.id.startswith("waves/"))
    assert len(names) > 10


def test_foreign_yaml_below_a_folder_is_left_alone(run, write, pytester):
    folder = write("a-held")
    for name, text in FOREIGN.items():
        (folder / name).write_text(text, encoding="utf-8")
    result = run("--collect-only", "-q")
    assert [line for line in result.outlines if "::" in line] == ["own/a-held.yaml::own/a-held"]
    assert result.ret == 0


@pytest.mark.parametrize("missing", ["title", "promise", "refs", "steps"])
def test_scenario_that_lacks_one_key_is_an_error_and_not_overlooked(run, write, missing):
    text = "".join(
        line for line in TEXT.splitlines(keepends=True) if not line.startswith((missing, " "))
    )
    write("bad", text=text)
    result = run("own")
    result.assert_outcomes(errors=1)
    assert "bad.yaml" in result.stdout.str()
    assert missing in result.stdout.str()


def test_misspelt_key_is_told_as_validate_tells_it(run, write):
    write("bad", text=TEXT.replace("promise:", "promize:"))
    result = run("own")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["error: unknown key 'promize'", "*own/bad.yaml:2:1", "*help: *did you mean 'promise'?"]
    )


def test_named_file_needs_one_key_only_and_foreign_ones_none(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("refs: []\n")
    assert is_scenario(path, named=True)
    assert not is_scenario(path, named=False)
    path.write_text("stages: []\n")
    assert not is_scenario(path, named=True)


def test_byte_order_mark_and_quoted_keys_are_keys_too(tmp_path):
    path = tmp_path / "a.yml"
    path.write_bytes(b"\xef\xbb\xbf\"title\": x\n'promise': y\nsteps : []\n")
    assert is_scenario(path, named=False)


def test_own_folder_gives_ids_relative_to_it_as_in_run(run, write):
    folder = write("deep/a-held")
    result = run(folder, "--collect-only", "-q")
    assert "own/deep/a-held.yaml::deep/a-held" in result.outlines


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["-m", "one"], ["one/a-held"]),
        (["-m", "wavecheck and not one"], ["two/b-held"]),
        (["-k", "two/b"], ["two/b-held"]),
        (["-k", "title and a-held"], ["one/a-held"]),
    ],
)
def test_selection_by_chapter_id_and_title(run, write, words, names):
    folder = write("one/a-held", "two/b-held")
    result = run(folder, "--collect-only", "-q", "--strict-markers", "-W", "error", *words)
    assert [line.partition("::")[2] for line in result.outlines if "::" in line] == names


def test_folder_named_like_a_marker_with_a_meaning_does_not_skip_its_scenarios(run, write, runner):
    assert chapters_of("skip/deep/_x/a") == ["deep"]
    run(write("skip/a-held")).assert_outcomes(passed=1)


def test_markers_are_listed(run):
    lines = run("--markers").outlines
    assert any(line.startswith("@pytest.mark.wavecheck:") for line in lines)
    assert any(line.startswith("@pytest.mark.waves:") for line in lines)


def test_each_release_is_a_test_of_its_own(run, write, runner):
    folder = write("a-held", text=TEXT + 'profiles: ">=0.32"\n')
    result = run(folder, "--wavecheck-profile", "all", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*::a-held?0.32.0? PASSED*", "*::a-held?0.33.0? PASSED*"])
    assert [options.profile for _, options in runner] == ["0.32.0", "0.33.0"]


def test_quick_and_shards_leave_out_what_run_leaves_out(run, write, runner):
    names = [f"s{i}-held" for i in range(8)]
    folder = write(*names)
    seen = []
    for shard in ("1/2", "2/2"):
        runner.clear()
        result = run(folder, "--wavecheck-shard", shard)
        seen.append({name for name, _ in runner})
        result.assert_outcomes(passed=len(seen[-1]), deselected=8 - len(seen[-1]))
    assert seen[0] | seen[1] == {*names}
    assert not seen[0] & seen[1]
    write("z-held", text=TEXT + "trials: {{miss: 0.1, max: 20}}\n")
    run(folder, "--wavecheck-quick").assert_outcomes(passed=8, deselected=1)
