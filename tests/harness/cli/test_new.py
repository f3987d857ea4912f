"""``wavecheck new``: where it writes, what it asks, what it refuses; and ``wavecheck schema``."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from click.testing import CliRunner, Result

from harness.authoring.places import SCHEMA_NAME, path_of_name, schema_place
from harness.authoring.starting import STARTS
from harness.cli import new_cmd
from harness.cli.main import cli
from harness.scenario.loader import builtin_dir, load
from harness.scenario.positions import parse_yaml
from harness.scenario.schema import schema_text
from harness.verdict import VIOLATED

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke

ROOT = Path(__file__).parents[3]
CASE = ("--hang", "1:add_lora", "--fail", "0:add_lora")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answering(monkeypatch: pytest.MonkeyPatch, answers: str, *words: str) -> Result:
    """Call it as on a terminal, with somebody who answers."""
    monkeypatch.setattr(new_cmd, "on_terminal", lambda: True)
    return CliRunner().invoke(cli, ["new", *words], input=answers, prog_name="wavecheck")


# --- writing ----------------------------------------------------------------------------------


def test_new_scenario_holds_and_its_commands_work_as_printed(invoke: Invoke) -> None:
    """Every command that is printed is carried out; only watching has no end of its own."""
    done = invoke("new", "waves/my-story", *CASE)
    assert done.exit_code == 0, done.stderr
    printed = [line.strip() for line in done.stdout.splitlines() if line.startswith("  wavecheck")]
    codes = {}
    for command in printed:
        words = command.partition("#")[0].split()[1:]
        if words[0] != "watch":
            codes[words[0] + " --mutant" * ("--mutant" in words)] = invoke(*words).exit_code
    assert codes == {"validate": 0, "explain": 0, "run": 0, "run --mutant": 1}
    assert any(command == "wavecheck watch waves/my-story.yaml" for command in printed)
    assert done.stdout.splitlines()[0] == "waves/my-story.yaml: utility, 15 lines of YAML"


def test_case_of_the_readme_is_red_on_the_fail_fast_mutant(invoke: Invoke, here: Path) -> None:
    invoke("new", "mine", *CASE, "--bare")
    lines = (here / "mine.yaml").read_text().splitlines()
    assert len(lines) - 1 <= 15
    done = invoke("run", "mine.yaml", "--mutant", "fail-fast-fan-out", "--json", "r.json")
    assert done.exit_code == 1
    (result,) = json.loads((here / "r.json").read_text())["results"]
    violated = {v["invariant"] for v in result["verdicts"] if v["verdict"] == VIOLATED}
    assert "utility.settles-before-return" in violated


def test_page_shows_what_its_commands_do(invoke: Invoke, here: Path) -> None:
    """The block is the file that its first command writes, and its last one says what it shows."""
    page = (ROOT / "docs" / "authoring.md").read_text(encoding="utf-8")
    part = page.partition("### A bug in fifteen lines")[2].partition("\n## ")[0]
    commands = [line[2:].split()[1:] for line in part.splitlines() if line.startswith("$ ")]
    done = [invoke(*words) for words in commands]
    assert [one.exit_code for one in done] == [0, 0, 1]
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
    assert block == (here / "lora.yaml").read_text().partition("\n")[2]
    assert len(block.splitlines()) == 15
    (shown,) = re.findall(r"`(violated\[.*?)`", part)
    assert shown in done[-1].stdout


@pytest.mark.parametrize("name", STARTS)
def test_every_template_is_written_and_valid(invoke: Invoke, here: Path, name: str) -> None:
    done = invoke("new", f"stories/{name}", "-t", name)
    assert done.exit_code == 0, done.stderr
    scenario = load(here / "stories" / f"{name}.yaml").scenario
    assert scenario.title
    assert invoke("validate", "stories").exit_code == 0
    run = next(ln.strip() for ln in done.stdout.splitlines() if ln.startswith("  wavecheck run"))
    target = "" if "sim" in STARTS[name].targets else " --target vllm-rs"
    assert run == f"wavecheck run stories/{name}.yaml{target}"


def test_flags_decide_what_is_in_the_file(invoke: Invoke, here: Path) -> None:
    words = ["--title", "T", "--promise", "P: p", "--ref", "vllm#1", "--ref", "https://a.example/b"]
    done = invoke("new", "x", "-t", "wave", "--engines", "4", "--profile", "0.32.0", *words)
    assert done.exit_code == 0, done.stderr
    scenario = load(here / "x.yaml").scenario
    assert (scenario.title, scenario.promise) == ("T", "P: p")
    assert scenario.refs == ["vllm#1", "https://a.example/b"]
    assert scenario.profiles == "==0.32.0"
    assert scenario.topology.engines == 4


def test_document_tells_programs_what_was_written(invoke: Invoke) -> None:
    document = json.loads(invoke("new", "x", *CASE, "--json", "-").stdout)
    assert document["path"] == "x.yaml"
    assert document["id"] == "x"
    assert document["template"] == "utility"
    assert document["mutant"] == "fail-fast-fan-out"
    assert Path(document["schema_file"]).name == SCHEMA_NAME
    assert document["commands"][0] == "wavecheck validate x.yaml"


def test_list_shows_every_template_and_writes_nothing(invoke: Invoke, here: Path) -> None:
    done = invoke("new", "--list")
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(STARTS)
    rows = json.loads(invoke("new", "--list", "--json", "-").stdout)
    assert [row["id"] for row in rows] == list(STARTS)
    assert rows[0]["takes"] == ["hang"]
    assert list(here.iterdir()) == []


def test_name_that_a_shell_would_split_is_quoted_in_commands(invoke: Invoke, here: Path) -> None:
    folder = here / "a b"
    folder.mkdir()
    done = invoke("new", "--out", "a b/x.yaml", *CASE)
    assert "wavecheck run 'a b/x.yaml' --mutant fail-fast-fan-out" in done.stdout
    assert "# To see it fail: wavecheck run 'a b/x.yaml'" in (folder / "x.yaml").read_text()


# --- places -----------------------------------------------------------------------------------


def test_folder_of_a_hostile_name_adds_no_line_to_the_file(invoke: Invoke, here: Path) -> None:
    plain, hostile = Path("plain/x.yaml"), Path("d\ny: 1\u2028\x1b[31m/x.yaml")
    for path in (plain, hostile):
        path.parent.mkdir()
        done = invoke("new", "--template", "wave", "--out", str(path))
        assert done.exit_code == 0, done.output
    assert parse_yaml(hostile.read_text("utf-8"))[0] == parse_yaml(plain.read_text("utf-8"))[0]
    assert all(line.isprintable() for line in hostile.read_text("utf-8").split("\n"))


def test_failure_of_a_hostile_text_is_told_as_it_was_given(invoke: Invoke, here: Path) -> None:
    text = "no\x85x \u2028y: \u202e\x1b[31m"
    done = invoke("new", "x", "--fail", f"0:add_lora:{text}")
    assert done.exit_code == 0, done.output
    written = (here / "x.yaml").read_text("utf-8")
    engines = parse_yaml(written)[0]["engines"]
    assert engines[0]["rules"][0]["do"] == {"fail": text}
    assert all(line.isprintable() for line in written.split("\n"))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("mine", "mine.yaml"),
        ("mine.yaml", "mine.yaml"),
        ("mine.yml", "mine.yml"),
        ("a/b/mine", "a/b/mine.yaml"),
        ("./a/./mine", "a/mine.yaml"),
        ("v0.33-story", "v0.33-story.yaml"),
        ("äöü", "äöü.yaml"),
    ],
)
def test_name_is_a_path_below_this_folder(name: str, path: str) -> None:
    assert path_of_name(name) == Path(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["../x"], "leads out of the current folder"),
        (["a/../../x"], "leads out of the current folder"),
        (["/x"], "leads out of the current folder"),
        (["~/x"], "leads out of the current folder"),
        ([".x"], "'.x' is no name"),
        (["a//x"], "the name is empty"),
        ([""], "the name is empty"),
        (["."], "the name is empty"),
        ([".yaml"], "the name is empty"),
        (["a b"], "'a b' is no name"),
        (["x\ny"], "is no name"),
        (["x", "--out", "y.yaml"], "NAME and --out are both given"),
        (["--out", "x.json"], "does not end as scenario files do"),
        (["--out", ".x.yaml"], "is hidden"),
        (["--out", "nowhere/x.yaml"], "there is no folder nowhere"),
        (["taken"], "taken.yaml is there already"),
        (["taken.yaml/x"], "taken.yaml is no folder"),
        (["folder.yaml"], "folder.yaml is a folder"),
        ([], "no name is given"),
    ],
)
def test_place_that_cannot_be_is_refused_and_nothing_is_written(
    invoke: Invoke, here: Path, words: list[str], message: str
) -> None:
    (here / "taken.yaml").write_text("mine")
    (here / "folder.yaml").mkdir()
    done = invoke("new", *words, "-t", "wave")
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert sorted(path.name for path in here.iterdir()) == ["folder.yaml", "taken.yaml"]
    assert (here / "taken.yaml").read_text() == "mine"


def test_force_replaces_a_file(invoke: Invoke, here: Path) -> None:
    (here / "x.yaml").write_text("mine")
    assert invoke("new", "x", "-t", "wave", "--force").exit_code == 0
    assert load(here / "x.yaml").scenario.topology.engines == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-t", "wav"], "did you mean 'wave'?"),
        ([], "no template is given"),
        (["--hang", "1"], "'1' is no behaviour"),
        (["-t", "wave", "--hang", "1:add"], "does not go with the template wave"),
        (["-t", "wave", "--profile", "new"], "'new' is no release"),
        (["-t", "wave", "--profile", ">=9"], "fits no known release"),
        (["-t", "wave", "--ref", "foo"], "'foo' is no reference"),
        (["-t", "wave", "--title", " "], "title is empty"),
        (["-t", "wave", "--engines", "0"], "--engines"),
        (["--method", "slep"], "did you mean 'sleep'?"),
    ],
)
def test_wish_that_makes_no_scenario_is_refused_and_nothing_is_written(
    invoke: Invoke, here: Path, words: list[str], message: str
) -> None:
    done = invoke("new", "x", *words)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert list(here.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="a read-only folder does not stop root")
def test_folder_that_cannot_be_written_is_told(invoke: Invoke, here: Path) -> None:
    here.chmod(0o500)
    done = invoke("new", "x", "-t", "wave")
    here.chmod(0o700)
    assert done.exit_code == 3
    assert "cannot write" in done.stderr


# --- the schema -------------------------------------------------------------------------------


def modeline(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].partition("$schema=")[2]


def test_schema_is_written_once_and_found_from_every_folder(invoke: Invoke, here: Path) -> None:
    invoke("new", "a", "-t", "wave")
    invoke("new", "deep/er/b", "-t", "wave")
    for path in (here / "a.yaml", here / "deep" / "er" / "b.yaml"):
        assert (path.parent / modeline(path)).resolve() == (here / SCHEMA_NAME).resolve()
    assert (here / SCHEMA_NAME).read_text(encoding="utf-8") == schema_text()
    assert list(here.rglob("*.json")) == [here / SCHEMA_NAME]
    data, _ = parse_yaml((here / "a.yaml").read_text())
    jsonschema.validate(data, json.loads((here / SCHEMA_NAME).read_text(encoding="utf-8")))


def test_nearest_schema_is_the_one_that_counts(here: Path) -> None:
    (here / "deep").mkdir()
    (here / "deep" / SCHEMA_NAME).write_text(schema_text(), encoding="utf-8")
    assert schema_place(Path("deep/er/x.yaml")).shown == f"../{SCHEMA_NAME}"
    assert schema_place(Path("x.yaml")).missing


def test_file_elsewhere_has_its_schema_beside_it(
    invoke: Invoke, here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    invoke("new", "--out", str(other / "x.yaml"), "-t", "wave")
    assert modeline(other / "x.yaml") == f"./{SCHEMA_NAME}"
    assert (other / SCHEMA_NAME).is_file()
    assert list(here.iterdir()) == []


def test_stale_schema_is_left_alone_and_told(invoke: Invoke, here: Path) -> None:
    (here / SCHEMA_NAME).write_text("{}")
    done = invoke("new", "x", "-t", "wave")
    assert (here / SCHEMA_NAME).read_text() == "{}"
    assert f"wavecheck schema scenario > {SCHEMA_NAME}" in done.stdout


def test_file_among_the_built_in_ones_names_their_schema(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = schema_place(builtin_dir() / "waves" / "x.yaml")
    assert (place.shown, place.missing) == ("../schema.json", False)


def test_schema_can_be_left_out(invoke: Invoke, here: Path) -> None:
    invoke("new", "x", "-t", "wave", "--no-schema")
    assert [path.name for path in here.iterdir()] == ["x.yaml"]
    assert "yaml-language-server" not in (here / "x.yaml").read_text()


def test_schema_command_prints_the_schema(invoke: Invoke) -> None:
    done = invoke("schema", "scenario")
    assert (done.exit_code, done.stdout) == (0, schema_text())
    assert invoke("schema", "nonsense").exit_code == 2


# --- asking -----------------------------------------------------------------------------------


def test_everything_is_asked_for_where_nothing_is_given(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = "stories/mine\nwave\n4\nMy title\n\n"
    done = answering(monkeypatch, answers)
    assert done.exit_code == 0, done.output
    scenario = load(here / "stories" / "mine.yaml").scenario
    assert scenario.title == "My title"
    assert scenario.promise == STARTS["wave"].promise
    assert scenario.topology.engines == 4


def test_empty_answers_take_what_stands_in_brackets(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = answering(monkeypatch, "fan-out\n" + "\n" * 6, "mine")
    assert done.exit_code == 0, done.output
    assert (
        load(here / "mine.yaml").scenario.title == "Engine 1 hangs in add_lora while engine 0 fails"
    )


def test_behaviours_of_a_call_are_asked_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = answering(monkeypatch, "utility\n3\nsleep\n0, 2\n-\n\n\n", "mine")
    assert done.exit_code == 0, done.output
    scenario = load(here / "mine.yaml").scenario
    assert scenario.title == "Each of engines 0 and 2 hangs in sleep"
    assert [spec.engine for spec in scenario.engines] == [0, 2]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ("utility\n2\nslep\n-\n-\n\n\n", "no method 'slep'"),
        *((f"utility\n\n\n{rank}\n-\n", "are no ranks") for rank in ("x", "²", "1" * 5_000)),
    ],
)
def test_answer_that_makes_no_scenario_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, answers: str, message: str
) -> None:
    done = answering(monkeypatch, answers, "mine")
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert list(here.iterdir()) == []


def test_end_of_the_answers_interrupts_and_writes_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = answering(monkeypatch, "mine\nwave\n")
    assert done.exit_code == 130
    assert list(here.iterdir()) == []


def test_nothing_is_asked_where_flags_say_enough(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answering(monkeypatch, "", "mine", *CASE).exit_code == 0
    assert answering(monkeypatch, "", "other", "-t", "wave").exit_code == 0


@pytest.mark.slow
def test_terminal_is_asked_for_real(here: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "new"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(theirs)
    os.write(ours, b"mine\nabort\n\n\n\n")
    said = b""
    try:
        while chunk := os.read(ours, 4096):
            said += chunk
    except OSError:
        pass  # how a terminal says that nobody has it open any more
    os.close(ours)
    assert process.wait(60) == 0, said.decode()
    assert "Template" in said.decode()
    assert load(here / "mine.yaml").scenario.title == STARTS["abort"].title
