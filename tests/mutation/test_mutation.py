"""The command itself: what is drawn, what a trial says, and the reviewed list."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from tests.mutation.equivalents import BOUND, Equivalent, listed, mutants_of
from tests.mutation.ledger import Entry, Ledger
from tests.mutation.mutants import ROOT, Mutant, drawn, modules, of_module
from tests.mutation.report import judged
from tests.mutation.selection import NEAREST, REST, nearest

SOURCE = '''\
from __future__ import annotations

Kind = int | str


def half(value: int | None, *, least: int = 0) -> int | None:
    """Text."""
    return max(value // 2, least) if value is not None else None
'''


def mutants(source=SOURCE):
    return list(of_module("client/half.py", source))


# --- what is drawn ---------------------------------------------------------------------------


def test_mutants_of_a_module_leave_types_alone_and_have_names_of_their_own():
    found = mutants()
    assert {each.line for each in found} == {
        "return max(value // 2, least) if value is not None else None",
        "def half(value: int | None, *, least: int = 0) -> int | None:",
    }
    assert {each.operator.split("_")[0] for each in found} == {
        "ReplaceBinaryOperator", "ReplaceComparisonOperator", "NumberReplacer", "AddNot",
    }  # fmt: skip
    assert all(each.within == "half" for each in found if "return" in each.line)
    assert len({each.name for each in found}) == len(found)


def test_name_of_a_mutant_outlives_lines_added_before_it():
    before, after = mutants(), mutants(SOURCE.replace("Kind =", "import os\n\nKind ="))
    assert [each.name for each in before] == [each.name for each in after]
    assert [each.number + 2 for each in before] == [each.number for each in after]


def test_mutant_changes_one_line_and_compiles():
    for each in mutants():
        assert each.is_python(SOURCE)
        old, new = SOURCE.splitlines(), each.source(SOURCE).splitlines()
        assert sum(a != b for a, b in zip(old, new, strict=True)) == 1


def test_mutant_is_shown_by_its_line_before_and_after_also_when_a_like_one_stands_elsewhere():
    source = "def first(a):\n    return not a\n\n\ndef second(a):\n    return a\n"
    (mutant,) = (m for m in mutants(source) if m.operator == "ReplaceUnaryOperator_Delete_Not")
    assert mutant.shown(source).split() == ["-", "return", "not", "a", "+", "return", "a"]


def test_mutant_of_another_text_is_refused():
    with pytest.raises(LookupError, match=r"no such mutant in client/half\.py"):
        mutants()[-1].source("pass\n")


def test_draw_depends_on_the_seed_alone(tmp_path):
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "half.py").write_text(SOURCE)
    found = mutants()
    first = drawn(found, "a", 5, tmp_path)
    assert first == drawn(found[::-1], "a", 5, tmp_path)
    assert first == drawn(found, "a", 9, tmp_path)[:5]
    assert first != drawn(found, "b", 5, tmp_path)


def test_modules_are_the_pure_ones_of_the_import_contract():
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pure = contract.split("pure objects have no clock")[1].split("forbidden_modules")[0]
    for file in modules():
        assert (ROOT / file).is_file()
        name = file.removesuffix(".py").replace("/", ".")
        assert f'"{name}"' in pure or name.startswith("client.protocol."), name
    clients = [word for word in pure.split('"') if word.startswith("client.")]
    assert {f"{name.replace('.', '/')}.py" for name in clients} - {"client/protocol.py"} <= set(
        modules()
    )


def test_tests_that_are_tried_exist():
    for file in modules():
        for test in (*nearest(file), *REST):
            assert (ROOT / test).exists(), test
    assert set(NEAREST) <= set(modules())


# --- the reviewed list -----------------------------------------------------------------------


def test_list_of_equivalents_is_short_and_argues_each_entry_once():
    found = listed()
    assert len(found) <= BOUND
    places = [(e.file, e.operator, e.within, e.line, e.nth) for e in found]
    assert len(set(places)) == len(places)
    for each in found:
        assert len(each.argument.split()) >= 8, each
        assert each.file in modules(), each


def test_each_equivalent_names_one_mutant_that_exists():
    stale = [each for each in listed() if len(mutants_of(each)) != 1]
    assert stale == []


def test_page_shows_every_equivalent_with_its_argument():
    page = (ROOT / "docs" / "mutation.md").read_text(encoding="utf-8")
    for each in listed():
        place = (
            f"| `{each.file}`, `{each.within or 'module'}` | `{each.operator}` of `{each.line}` |"
        )
        assert f"{place} {' '.join(each.argument.split())} |" in page


def test_entry_of_another_form_is_refused_with_its_number(tmp_path):
    path = tmp_path / "list.yaml"
    path.write_text("- {file: a, operator: b, within: c, line: d}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"list\.yaml: entry 1: .*argument"):
        listed(path)


# --- results ---------------------------------------------------------------------------------


def entry(mutant, end):
    return Entry(mutant.name, end, "test", 1.0)


def test_results_are_taken_up_only_of_the_same_tree(tmp_path):
    one, two, three = mutants()[:3]
    path = tmp_path / "results.jsonl"
    ledger = Ledger(path, "tree", keep_kills=False)
    ledger.add(entry(one, "failed"))
    ledger.add(entry(two, "passed"))
    with path.open("a") as file:
        file.write('{"name": "half a li')
    assert Ledger(path, "tree", keep_kills=False).left([one, two, three]) == [three]
    assert Ledger(path, "other", keep_kills=True).left([one, two, three]) == [two, three]
    assert Ledger(path, "third", keep_kills=False).left([one, two, three]) == [one, two, three]


def sample(count):
    return [Mutant("client/half.py", "AddNot", "", f"line {n}", 0, n, n) for n in range(count)]


@pytest.mark.parametrize(
    ("passed", "late", "good"), [(0, 0, True), (9, 0, True), (10, 0, False), (0, 10, False)]
)
def test_more_than_nine_of_ten_must_be_killed_by_a_test(passed, late, good):
    some = sample(100)
    ends = ["passed"] * passed + ["timeout"] * late + ["failed"] * (100 - passed - late)
    entries = {m.name: entry(m, end) for m, end in zip(some, ends, strict=True)}
    verdicts = judged(some, entries, [])
    assert verdicts.good is good
    assert (len(verdicts.survived), len(verdicts.timeout)) == (passed, late)


def test_mutant_without_a_result_spoils_the_verdict():
    some = sample(100)
    entries = {m.name: entry(m, "failed") for m in some[1:]}
    assert judged(some, entries, []).unknown == some[:1]
    assert not judged(some, entries, []).good


def test_mutant_that_was_argued_to_be_equivalent_and_is_killed_spoils_the_verdict():
    equivalent = listed()[0]
    (mutant,) = mutants_of(equivalent)
    some = [*sample(99), mutant]
    entries = {each.name: entry(each, "failed") for each in some}
    verdicts = judged(some, entries | {mutant.name: entry(mutant, "passed")}, [equivalent])
    assert verdicts.equivalent == [mutant]
    assert verdicts.good
    verdicts = judged(some, entries, [equivalent])
    assert verdicts.refuted == [mutant]
    assert not verdicts.good


@pytest.mark.parametrize(("argued", "good"), [(5, True), (6, False)])
def test_one_of_twenty_may_be_argued_to_be_equivalent(argued, good):
    some = sample(100)
    entries = {m.name: entry(m, "passed" if m in some[:argued] else "failed") for m in some}
    reasons = [Equivalent(m.file, m.operator, m.within, m.line, "why") for m in some[:argued]]
    verdicts = judged(some, entries, reasons)
    assert len(verdicts.equivalent) == argued
    assert verdicts.good is good


# --- trials ----------------------------------------------------------------------------------

TEST = """\
from client.half import half

def test_half():
    assert half(5) == 2
"""

DRIVER = """\
import json, pathlib, sys
from tests.mutation.mutants import of_module
from tests.mutation.trial import Tree

root, place, texts = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])

class Text:
    file = "client/half.py"
    def __init__(self, text):
        self.text = text
    def source(self, original):
        return self.text

tree, found = Tree(root, place), []
for text in texts:
    with tree.changed(Text(text)):
        outcome = tree.begin(["tests/test_half.py"]).wait(2.0 if "while" in text else 60.0)
        found.append([outcome.end, outcome.witness])
same = (tree.path / "client/half.py").read_text() == (root / "client/half.py").read_text()
print(json.dumps([found, same]))
"""


@pytest.mark.slow
def test_trial_tells_failing_from_hanging_from_crashing_and_leaves_the_copy_as_it_was(tmp_path):
    root, place = tmp_path / "root", tmp_path / "place"
    for package in ("client", "mock_engines", "harness"):
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").touch()
    (root / "tests").mkdir()
    place.mkdir()
    (root / "client" / "half.py").write_text(SOURCE)
    (root / "tests" / "test_half.py").write_text(TEST)
    (root / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    texts = [
        SOURCE,
        SOURCE.replace("// 2", "// 3"),
        SOURCE.replace("Kind =", "Kind = 1 +"),
        SOURCE.replace('"""Text."""', "while True: pass"),
        SOURCE.replace('"""Text."""', "import os; os._exit(3)"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DRIVER), root, place, json.dumps(texts)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, same = json.loads(done.stdout)
    assert [end for end, _ in found] == ["passed", "failed", "import", "timeout", "crash"]
    assert found[1][1] == "tests/test_half.py::test_half"
    assert same


@pytest.mark.slow
def test_command_refuses_a_module_that_is_not_mutated(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation", "--file", "client/aio.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "client/aio.py is none of: client/aggregation.py" in done.stderr


@pytest.mark.slow
def test_command_kills_a_few_mutants_of_a_small_module_and_takes_up_its_results(tmp_path):
    few = ["--file", "client/aggregation.py", "--count", "4", "--quick"]
    for left in (4, 0):
        done = subprocess.run(
            [sys.executable, "-m", "tests.mutation", *few, "--out", tmp_path / "results.jsonl"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{left} to try" in done.stdout
        assert "4 of 4 mutants killed (100.0%)" in done.stdout
