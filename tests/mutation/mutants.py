"""All mutants of the pure modules, and the sample of them that is tried.

The operators are cosmic-ray's. What it lacks here is a name that outlives an edit (it counts
occurrences over a whole file) and a draw by seed: both are made below.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import itertools
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.ast.ast_query import ASTQuery
from cosmic_ray.mutating import mutate_code
from parso.tree import NodeOrLeaf

ROOT = Path(__file__).resolve().parents[2]

CLIENT = (
    "aggregation", "config", "coordinator", "errors", "events", "external_coordinator",
    "handshake", "rank_metadata", "requests", "routing", "streams", "utility",
)  # fmt: skip
"""Pure modules of the client beside those of ``client.protocol``, which are all pure."""

WAVE_MODEL = "mock_engines/waves.py"

SAMPLE = 500
SEED = "wavecheck"

Position = tuple[int, int]
"""Line from 1, column from 0 in characters."""


@dataclass(frozen=True, order=True)
class Mutant:
    """One small change of one module.

    ``within``: the function or class around it, or nothing; ``line``: text of the line that
    changes, without indentation; ``nth``: which of the equal ones, from 0. These together name
    the mutant. ``occurrence`` is cosmic-ray's count over the file, ``number`` the line's number.
    """

    file: str
    operator: str
    within: str
    line: str
    nth: int
    occurrence: int
    number: int

    @property
    def name(self) -> str:
        """What stays the same while other lines of the file change."""
        return f"{self.file} | {self.within} | {self.operator} | {self.line} | {self.nth}"

    def source(self, original: str) -> str:
        """The module's text with this change in it.

        Raises:
            LookupError: there is none: another text, or a place that the operator cannot change.
        """
        try:
            changed = mutate_code(original, operator(self.operator), self.occurrence)
        except AttributeError:  # cosmic-ray's replacer of exceptions, at a dotted name
            changed = None
        if changed is None or changed == original:
            raise LookupError(f"no such mutant in {self.file} as it is now: {self.name}")
        return str(changed)

    def is_python(self, original: str) -> bool:
        """Whether there is a changed text, and it compiles: ``**options`` becomes ``<<options``."""
        with warnings.catch_warnings(action="ignore"):
            try:
                compile(self.source(original), self.file, "exec", dont_inherit=True)
            except (SyntaxError, LookupError):
                return False
        return True

    def shown(self, original: str) -> str:
        """The changed line as it was and as it is, for a reader."""
        before, after = original.splitlines(), self.source(original).splitlines()
        changed = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
        return "\n".join(f"{line[0]} {line[1:].strip()}" for line in changed if line[0] != "@")


def modules(root: Path = ROOT) -> list[str]:
    """Paths of the modules that are mutated, relative to the tree."""
    protocol = sorted((root / "client" / "protocol").glob("*.py"))
    found = [path.relative_to(root).as_posix() for path in protocol if path.stem != "__init__"]
    return [*(f"client/{name}.py" for name in CLIENT), *found, WAVE_MODEL]


@cache
def operator(name: str) -> cosmic_ray.operators.operator.Operator:
    """The operator, by cosmic-ray's name without the leading ``core/``."""
    return cosmic_ray.plugins.get_operator(f"core/{name}")()


def operators() -> list[str]:
    """All that need no arguments: the two others want lists of names, written for each case."""
    names = (name.removeprefix("core/") for name in cosmic_ray.plugins.operator_names())
    return [n for n in names if not cosmic_ray.plugins.get_operator(f"core/{n}").arguments()]


def of_module(file: str, source: str, chosen: Sequence[str] | None = None) -> Iterator[Mutant]:
    """The mutants of one module, by all operators or by the chosen ones."""
    tree, lines, types = get_ast(source), source.splitlines(), list(_types(source))
    nodes = list(ast_nodes(tree))
    for name in operators() if chosen is None else chosen:
        seen: Counter[tuple[str, str]] = Counter()
        found = ((n, *span) for n in nodes for span in operator(name).mutation_positions(n))
        for occurrence, (node, start, end) in enumerate(found):
            # The bare ``*`` of a signature is no operator, though cosmic-ray takes it for one.
            if any(low <= start and end <= high for low, high in types) or _is_marker(node):
                continue
            line = lines[start[0] - 1].strip()
            within = ASTQuery(node).get_definition_name() or ""
            nth = seen[within, line]
            seen[within, line] += 1
            yield Mutant(file, name, within, line, nth, occurrence, start[0])


def all_mutants(root: Path = ROOT, files: Sequence[str] = ()) -> list[Mutant]:
    """Every mutant of every module, or of the named ones."""
    return [m for file in files or modules(root) for m in of_module(file, _text(root, file))]


def drawn(
    mutants: Sequence[Mutant], seed: str = SEED, count: int = SAMPLE, root: Path = ROOT
) -> list[Mutant]:
    """A sample: the mutants whose hashed names are least, so each is as likely as another.

    Those that do not compile are passed over: no test is needed to find them.

    An edit of one line changes the sample by that line's mutants only; a shuffle would change all.
    """

    def rank(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed}\n{mutant.name}".encode()).hexdigest()

    ranked = sorted(mutants, key=rank)
    fit = (mutant for mutant in ranked if mutant.is_python(_text(root, mutant.file)))
    return list(itertools.islice(fit, count))


def _text(root: Path, file: str) -> str:
    return (root / file).read_text(encoding="utf-8")


def _is_marker(node: NodeOrLeaf) -> bool:
    return node.type == "operator" and node.parent is not None and node.parent.type == "parameters"


def _types(source: str) -> Iterator[tuple[Position, Position]]:
    """Spans that no run evaluates as values: annotations, and unions of types given a name.

    Annotations are never evaluated (``from __future__ import annotations``), and a changed union
    ends the import: neither says anything about the tests.
    """
    tree = ast.parse(source)
    lines = source.splitlines()
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(part, ast.expr):
                yield _span(part, lines)
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
            operators_used = [n for n in ast.walk(statement.value) if isinstance(n, ast.operator)]
            if all(isinstance(each, ast.BitOr) for each in operators_used):
                yield _span(statement.value, lines)


def _span(node: ast.expr, lines: Sequence[str]) -> tuple[Position, Position]:
    def column(line: int, offset: int) -> int:
        return len(lines[line - 1].encode()[:offset].decode())

    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = (node.lineno, column(node.lineno, node.col_offset))
    return start, (node.end_lineno, column(node.end_lineno, node.end_col_offset))
