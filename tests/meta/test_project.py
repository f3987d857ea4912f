"""The tree itself: licence, documents, commands that are documented, what must not be tracked."""

from __future__ import annotations

import functools
import itertools
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from harness.cli.main import cli
from harness.docs import TABLES, main, regenerated
from harness.mutants import discover as discover_mutants
from harness.scenario import checks_utilities, checks_values, model, selection
from harness.verdict import ExitCode
from mock_engines.behaviours import model as behaviours
from tests.support.models import models_of, words_of
from tests.support.pages import shown_line

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def prose(text: str) -> str:
    """A page without its code blocks and inline code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, by the rule of the usual Markdown hosts."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        kept = "".join(c for c in plain.lower() if c.isalnum() or c in " -_")
        found.add(kept.strip().replace(" ", "-"))
    return found


@functools.cache
def tracked() -> tuple[Path, ...]:
    """Files that are, or would be, under version control."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("this tree is no git work tree")
    paths = (ROOT / name.decode() for name in done.stdout.split(b"\0") if name)
    return tuple(path for path in paths if path.is_file())


def texts() -> Iterator[tuple[str, str]]:
    """Names and texts of the tracked files that are text."""
    for path in tracked():
        try:
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


# --- licence --------------------------------------------------------------------------------


def test_license_file_and_metadata_say_apache_2():
    head = (ROOT / "LICENSE").read_text(encoding="utf-8").split("\n\n")[0]
    assert "Apache License" in head
    assert "Version 2.0" in head
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0"
    assert project["name"] == "wavecheck"


# --- pages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_page_every_internal_link_resolves(page):
    broken = []
    for target in LINK.findall(prose(page.read_text(encoding="utf-8"))):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        exists = place.exists() and (not anchor or anchor in anchors(place))
        if not exists:
            broken.append(target)
    assert broken == []


def test_pages_below_docs_are_all_reachable_from_readme():
    seen: set[Path] = set()
    queue = [ROOT / "README.md"]
    while queue:
        page = queue.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        for target in LINK.findall(prose(page.read_text(encoding="utf-8"))):
            if not re.match(r"https?://", target):
                queue.append((page.parent / target.partition("#")[0]).resolve())
    lost = [page.relative_to(ROOT).as_posix() for page in PAGES if page not in seen]
    assert lost == []


def test_generated_tables_are_current():
    # In a process of its own, as a user writes them: other tests change defaults and registries.
    command = [sys.executable, "-m", "harness.docs", "--check"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 0, f"run: make docs\n{said.stdout}{said.stderr}"


def test_generated_tables_every_one_stands_on_a_page():
    used = set()
    for page in PAGES:
        used |= set(re.findall(r"<!-- generated: ([a-z-]+) -->", page.read_text(encoding="utf-8")))
    assert used == set(TABLES)


def test_stale_table_is_seen_and_mended(tmp_path):
    page = tmp_path / "page.md"
    begin, end = "<!-- generated: capabilities -->\n", "<!-- end generated -->"
    page.write_text(f"before\n{begin}old\n{end}\nafter\n", encoding="utf-8")
    runner = CliRunner()
    assert runner.invoke(main, ["--check", str(tmp_path)]).exit_code == 1
    assert "old" in page.read_text(encoding="utf-8")
    assert runner.invoke(main, [str(tmp_path)]).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{begin}")
    assert text.endswith(f"{end}\nafter\n")
    assert "`op.generate`" in text
    assert runner.invoke(main, ["--check", str(tmp_path)]).exit_code == 0


def test_unknown_table_is_an_error_that_names_the_known_ones():
    with pytest.raises(ValueError, match="capabilities"):
        regenerated("<!-- generated: nonsense -->\n<!-- end generated -->")


def test_changelog_has_unreleased_part_with_both_headings():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    part = text.partition("## Unreleased")[2]
    assert "### Added" in part
    assert "### May turn a passing target red" in part


# --- documented commands ---------------------------------------------------------------------


def documented_commands() -> Iterator[tuple[str, str]]:
    """Page and command line of everything that starts with ``wavecheck``."""
    for page, name in zip(PAGES, NAMES, strict=True):
        text = page.read_text(encoding="utf-8")
        for _, block in FENCE.findall(text):
            for line in block.splitlines():
                if match := re.match(r"\$ (wavecheck .*)", line):
                    yield name, match[1]
        for inline in re.findall(r"`(wavecheck [^`\n]+)`", FENCE.sub("", text)):
            yield name, inline


def command_problem(line: str) -> str | None:
    """What is wrong with a documented command line, or ``None``."""
    words = re.sub(r"\s#.*", "", line).split()[1:]
    command: click.Command = cli
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        found = command.commands.get(words[0])
        if found is None:
            return f"{line!r}: no command {words[0]!r}"
        command, words = found, words[1:]
    flags = {"--help", "-h"} if command is not cli else {"--help", "-h", "--version"}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            flags |= {*parameter.opts, *parameter.secondary_opts}
    for word in words:
        if word.startswith("-") and word != "-" and word.partition("=")[0] not in flags:
            return f"{line!r}: no option {word!r}"
    return None


def test_documented_commands_and_options_exist():
    lines = list(documented_commands())
    assert len(lines) > 20
    problems = [f"{name}: {why}" for name, line in lines if (why := command_problem(line))]
    assert problems == []


def test_documented_command_check_sees_a_wrong_command_and_a_wrong_option():
    assert command_problem("wavecheck walk") is not None
    assert command_problem("wavecheck run --strickt") is not None
    assert command_problem("wavecheck run waves --strict") is None


def test_documented_scenarios_and_mutants_exist():
    known = {found.id for found in selection.builtin()}
    known |= {name.partition("/")[0] for name in known}
    mutants = {mutant.id for mutant in discover_mutants()}
    lost = []
    for page, line in documented_commands():
        words = re.sub(r"\s#.*", "", line).split()
        if (
            words[1:2] == ["run"]
            and len(words) > 2
            and re.fullmatch(r"[a-z]+(/[a-z-]+)?", words[2])
        ):
            lost += [f"{page}: {words[2]}"] if words[2] not in known else []
        for flag, name in itertools.pairwise(words):
            if flag == "--mutant" and name != "ID" and name not in mutants:
                lost.append(f"{page}: {name}")
    assert lost == []


def test_readme_flags_of_run_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    paragraph = next(p for p in text.split("\n\n") if p.startswith("Often used with `run`"))
    flags = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", paragraph)
    assert "--allow-known" in flags
    assert [f for f in flags if f != "--help" and command_problem(f"wavecheck run {f}")] == []


def test_readme_shows_what_the_commands_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [block for lang, block in FENCE.findall(text) if lang == "console"]
    shown = [part.splitlines() for block in blocks for part in block.split("$ ")[1:]]
    # What a real frontend prints is compared by tests/tutorial, where there is a binary.
    played = [part for part in shown if len(part) > 1 and "vllm-rs" not in part[0]]
    assert [part[0].split()[1] for part in played] == ["run", "run", "replay"]
    for command, *lines in played:
        words = [found for word in command.split()[1:] for found in expanded(word, tmp_path)]
        printed = iter(CliRunner().invoke(cli, words).output.splitlines())
        for line in lines:
            pattern = shown_line(line)
            assert any(pattern.fullmatch(each.rstrip()) for each in printed), f"{command}: {line}"


def expanded(word: str, folder: Path) -> list[str]:
    """What a shell makes of a word with an asterisk."""
    return [str(path) for path in folder.glob(word)] if "*" in word else [word]


@pytest.mark.parametrize("name", ["README.md", "docs/json.md"])
def test_exit_codes_on_page_are_those_of_the_code(name):
    rows = re.findall(r"^\| (\d+) \|", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(row) for row in rows] == [int(code) for code in ExitCode]


def test_documented_make_targets_exist():
    targets = set(
        re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    named = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        named |= set(re.findall(r"(?:`|\$ )make ([a-z]+)", text))
    assert {"test", "conformance"} <= named <= targets


# --- the page on scenarios --------------------------------------------------------------------


MODELS = sorted(set(models_of(model.Scenario)), key=lambda cls: cls.__name__)


def words_in_code(text: str) -> set[str]:
    """Words of a page that stand in code, in a block or between backticks."""
    code = [block for _, block in FENCE.findall(text)]
    code += re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    return {word for part in code for word in re.findall(r"[A-Za-z_][\w-]*", part)}


@pytest.mark.parametrize("cls", MODELS, ids=lambda cls: cls.__name__)
def test_scenarios_page_names_every_key_and_every_word_in_code(cls):
    known = words_in_code((DOCS / "scenarios.md").read_text(encoding="utf-8"))
    wanted = set(cls.model_fields)
    for info in cls.model_fields.values():
        wanted |= {word for word in words_of(info.annotation) if isinstance(word, str)}
    assert sorted(wanted - known) == []


def test_scenario_models_are_all_found():
    found = {cls.__name__ for cls in MODELS}
    assert {"Scenario", "HttpStep", "Measured", "ReplyWith", "Notice"} <= found
    assert "abort-after-add" in set(words_of(model.CrowdStep.model_fields["leave"].annotation))


def test_scenarios_page_names_keys_of_states_and_operations_and_methods_of_the_api():
    text = (DOCS / "scenarios.md").read_text(encoding="utf-8")
    listed = text.partition("An engine's state has the keys")[2].partition(".\n")[0]
    assert tuple(re.findall(r"`(\w+)`", listed)) == checks_values.STATE_KEYS
    known = words_in_code(text)
    assert [name for name in checks_utilities.api_methods() if name not in known] == []
    assert [k for keys in checks_values.KEYS_OF_OP.values() for k in keys if k not in known] == []


@pytest.mark.parametrize(
    ("heading", "cls"),
    [
        ("### Actions", behaviours.Action),
        ("## `steps`", model.Step),
        ("## `expect`", model.Expect),
    ],
)
def test_scenarios_page_examples_in_tables_are_valid(heading, cls):
    text = (DOCS / "scenarios.md").read_text(encoding="utf-8")
    part = re.split(r"^#{2,3} ", text.partition(f"{heading}\n")[2], flags=re.MULTILINE)[0]
    column = 3 if cls is model.Expect else 2
    cells = [row.split(" | ")[column - 1] for row in part.splitlines() if row.startswith("| ")]
    examples = [match[1] for cell in cells if (match := re.match(r"`(.*?)`", cell.strip()))]
    assert len(examples) >= 9
    for example in examples:
        cls.model_validate(yaml.safe_load(example))


def test_scenarios_page_example_holds_in_simulation(tmp_path):
    text = (DOCS / "scenarios.md").read_text(encoding="utf-8")
    example = next(block for lang, block in FENCE.findall(text) if "title:" in block)
    path = tmp_path / "example.yaml"
    path.write_text(example, encoding="utf-8")
    report = tmp_path / "report.json"
    done = CliRunner().invoke(cli, ["run", str(path), "--json", str(report)])
    assert done.exit_code == 0, done.output
    assert json.loads(report.read_text(encoding="utf-8"))["summary"]["held"] == 1


# --- what must not be tracked -------------------------------------------------------------------

# In pieces, so that this file does not find itself.
MACHINE_PATHS = re.compile(
    r"(?<![\w.])/(?:" + "|".join(["ho" + "me", "ro" + "ot", "Us" + "ers", "wo" + "rk"]) + r")/\w"
)
REGISTRY_HOSTS = re.compile(
    "|".join(
        [
            r"pypi\." + "org",
            "python" + r"hosted\.org",
            r"npm" + r"js\.(?:org|com)",
            r"proxy\.go" + r"lang\.org",
            "crates" + r"\.io",
            r"deb\." + "debian",
        ]
    )
)


@pytest.mark.parametrize(
    ("pattern", "sample"),
    [
        (MACHINE_PATHS, "see /" + "home/somebody/file"),
        (REGISTRY_HOSTS, "https://" + "pypi" + ".org/simple"),
    ],
    ids=["path of a machine", "host of a package registry"],
)
def test_tracked_files_hold_none(pattern, sample):
    assert pattern.search(sample)
    found = [
        f"{name}:{number}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []


def test_tracked_files_are_none_that_tools_leave_behind():
    left = [path.name for path in tracked() if path.suffix in {".orig", ".rej", ".bak", ".pyc"}]
    assert left == []


def test_tracked_files_are_small():
    large = [path.name for path in tracked() if path.stat().st_size > 1 << 20]
    assert large == []


# --- the ways in ----------------------------------------------------------------------------------


def test_ci_run_is_executable_strict_and_calls_make_test():
    script = ROOT / ".ci" / "run"
    text = script.read_text(encoding="utf-8")
    assert script.stat().st_mode & 0o111
    assert text.startswith("#!/usr/bin/env bash\n")
    code = list(itertools.dropwhile(lambda line: line.startswith("#"), text.splitlines()))
    assert code[0] == "set -euo pipefail"
    assert "make test" in text
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


def test_makefile_help_lists_every_phony_target():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    assert phony is not None
    helped = re.findall(r"^([a-z]+):.*## ", text, re.MULTILINE)
    assert sorted(phony[1].split()) == sorted(helped)
