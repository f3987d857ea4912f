"""The reference names everything that is public: commands, options, exit codes, keys, variables."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from harness.cli.main import cli
from harness.docs import schemas, surroundings
from harness.docs.schemas import SchemaPages
from harness.invariants import discover as discover_invariants
from harness.mutants import discover as discover_mutants
from harness.reports import words as report_words
from harness.reports.schema import FORMS, schema_of
from harness.scenario import words as scenario_words
from harness.scenario.schema import scenario_schema
from harness.targets.vllm_rs import command as real_command
from harness.trace.kinds import FIELDS_OF, KIND_OF
from harness.verdict import ExitCode

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
SCHEMAS = {
    "scenario": (scenario_schema(), REFERENCE / "scenario-keys.md", scenario_words.WORDS),
    **{name: (schema_of(name), REFERENCE / "json-keys.md", report_words.WORDS) for name in FORMS},
}


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def sections(page: Path) -> dict[str, str]:
    """Sections of the second level by heading, without backticks."""
    parts = re.split(r"^## (.+)$", text_of(page), flags=re.MULTILINE)
    return {
        head.replace("`", ""): body for head, body in zip(parts[1::2], parts[2::2], strict=True)
    }


# --- commands -------------------------------------------------------------------------------


def commands(command: click.Command = cli, name: str = "wavecheck"):
    yield name, command
    for word, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from commands(below, f"{name} {word}")


def undocumented_options(command: click.Command, section: str) -> list[str]:
    names = [
        name
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in [*parameter.opts, *parameter.secondary_opts]
    ]
    return [name for name in names if f"`{name}`" not in section]


def test_reference_of_commands_has_each_with_its_usage_arguments_and_options():
    found = sections(REFERENCE / "cli.md")
    for name, command in commands():
        section = found[name]
        assert f"```text\n{name}" in section
        assert undocumented_options(command, section) == [], name
        for parameter in command.params:
            if isinstance(parameter, click.Argument):
                shown = (parameter.metavar or parameter.human_readable_name).strip("[].")
                shown = shown if parameter.metavar else shown.upper()
                words = getattr(parameter.type, "choices", [shown])
                assert [word for word in words if word not in section] == [], name


def test_option_that_the_reference_lacks_is_found():
    extra = click.Option(["--certainly-new"])
    command = click.Command("run", params=[*cli.commands["run"].params, extra])
    section = sections(REFERENCE / "cli.md")["wavecheck run"]
    assert undocumented_options(command, section) == ["--certainly-new"]


def test_reference_of_exit_codes_has_each_with_its_name():
    rows = re.findall(
        r"^\| (\d+) \| `(\w+)` \| .+ \|$", text_of(REFERENCE / "cli.md"), re.MULTILINE
    )
    assert rows == [(str(code.value), code.name) for code in ExitCode]


# --- keys -----------------------------------------------------------------------------------


def keys_of(schema):
    """Every object of a schema, by the class that it is made from, with its keys."""
    yield "Scenario", schema.get("properties", {})
    for name, definition in schema["$defs"].items():
        yield name, definition.get("properties", {})


@pytest.mark.parametrize("name", SCHEMAS)
def test_reference_of_keys_has_each_in_a_section_of_its_object(name):
    schema, page, _ = SCHEMAS[name]
    pages = SchemaPages(schema, schemas.SCENARIO)
    documented = re.split(r"^## ", text_of(page), flags=re.MULTILINE)
    tables = [set(re.findall(r"^\| `([\w-]+)` \|", part, re.MULTILINE)) for part in documented]
    for owner, properties in keys_of(schema):
        if properties:
            assert set(properties) in tables, owner
    objects = {owner for owner, properties in keys_of(schema) if properties}
    assert objects == {found or "Scenario" for found in pages.paths}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_key_of_a_file_or_document_has_words(name):
    schema, _, _ = SCHEMAS[name]
    silent = []
    for owner, properties in keys_of(schema):
        definition = schema["$defs"].get(owner, schema)
        explained = schemas.attributes_of(definition.get("description", ""))
        silent += [
            f"{owner}.{key}"
            for key, value in properties.items()
            if not value.get("description") and key not in explained
        ]
    assert silent == [], "say in a few words what they mean: see words.py beside the model"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (scenario_words.WORDS, [scenario_schema()]),
        (report_words.WORDS, [schema_of(name) for name in FORMS]),
    ],
    ids=["scenario", "documents"],
)
def test_words_are_about_keys_that_there_are(words, found):
    there = {
        f"{owner}.{key}" for schema in found for owner, keys in keys_of(schema) for key in keys
    }
    said = {f"{owner}.{key}" for owner, keys in words.items() for key in keys}
    assert said - there == set()


def test_headings_of_a_reference_page_are_links_of_their_own():
    for page in REFERENCE.glob("*.md"):
        plain = re.findall(r"^#{2,3} (.+)$", text_of(page), re.MULTILINE)
        links = ["".join(c for c in head.lower() if c.isalnum() or c in "-_ ") for head in plain]
        assert sorted(set(links)) == sorted(links), page.name


# --- invariants -----------------------------------------------------------------------------


def test_reference_of_invariants_has_the_reason_and_the_source_of_each():
    found = sections(REFERENCE / "invariants.md")
    for cls in discover_invariants():
        rows = dict(re.findall(r"^\| ([a-z, ]+) \| (.+) \|$", found[cls.id], re.MULTILINE))
        assert len(rows["why"]) > 20, cls.id
        assert len(rows["source"]) > 5, cls.id
    for mutant in discover_mutants():
        assert f"`{mutant.id}`" in found[mutant.killed_by]


# --- events, pytest, environment ------------------------------------------------------------


def test_reference_of_events_has_each_kind_with_its_fields():
    rows = dict(
        re.findall(r"^\| `([\w-]+)` \| (.*?) \| ", text_of(REFERENCE / "events.md"), re.MULTILINE)
    )
    assert set(rows) == {kind for kind, _ in KIND_OF.values()}
    for event, (kind, _) in KIND_OF.items():
        assert [name for name in FIELDS_OF[event] if f"`{name}`" not in rows[kind]] == []


def test_reference_of_pytest_has_each_option_and_fixture_that_pytest_shows():
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", "--help", "--fixtures", "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT / "docs",
    ).stdout
    text = text_of(REFERENCE / "pytest.md")
    options = set(re.findall(r"--wavecheck-[a-z-]+", shown))
    assert len(options) > 20
    assert sorted(name for name in options if f"`{name}`" not in text) == []
    fixtures = surroundings.fixtures()
    assert len(fixtures) >= 3
    assert all(fixtures.values())
    assert [name for name in fixtures if f"`{name}`" not in text] == []


VARIABLE = re.compile(r"(?:WAVECHECK|VLLM|RUST|GITHUB|HYPOTHESIS|GRPC|CI)_[A-Z_]+|NO_COLOR|COLUMNS")


def variables_of_the_code() -> set[str]:
    """Words in the code that look like names of environment variables."""
    found = set()
    for package in ("client", "mock_engines", "harness"):
        for path in (ROOT / package).rglob("*.py"):
            if path.name == "command.py" and path.parent.name == "vllm_rs":
                continue  # what a real frontend is started with; its own page says it
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    match = VARIABLE.fullmatch(node.value)
                    found |= {match[0]} if match else set()
    return found


def test_reference_of_the_environment_has_each_variable_that_the_code_names():
    text = text_of(REFERENCE / "environment.md")
    found = variables_of_the_code()
    assert "WAVECHECK_CACHE" in found
    assert sorted(name for name in found if f"`{name}`" not in text) == []


def test_page_on_real_frontends_has_each_variable_that_they_are_started_with():
    text = text_of(ROOT / "docs" / "real-frontend.md")
    before = {"PATH": "/usr/bin"}
    given = real_command.process_environment(Path("model"), before)
    assert sorted(name for name in given if name not in before and f"`{name}" not in text) == []
