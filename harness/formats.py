"""Every form that outlives one command: its version, what is read of older ones, what a refusal says.

``docs/formats.md`` has the table of this module, and says what counts as a breaking change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WINDOW = "at least two minor releases of wavecheck, and six months, after a newer one came"
"""How long a version stays readable."""


@dataclass(frozen=True, slots=True)
class Form:
    """One form.

    Attributes:
        id: what it is called in messages.
        key: that holds its version.
        current: what is written.
        oldest: the oldest version that is read.
        older: what becomes of an older version that is read.
        again: the command that makes such a file afresh, for one that is not read any more.
        where: who writes it, and where it is described.
    """

    id: str
    key: str
    current: int
    oldest: int
    older: str
    again: str
    where: str

    @property
    def versions(self) -> range:
        """Versions that are read."""
        return range(self.oldest, self.current + 1)

    @property
    def reads(self) -> str:
        """The same in words: ``1``, ``1 to 4``."""
        if self.oldest == self.current:
            return f"{self.current}"
        return f"{self.oldest} to {self.current}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a version is not read, and what to do."""

    title: str
    help: str


SCENARIO = Form(
    "scenario",
    "format",
    current=1,
    oldest=1,
    older="a file without the key is of format 1",
    again="wavecheck validate FILE",
    where="[scenario files](scenarios.md)",
)
FAILURE = Form(
    "failure file",
    "format",
    current=4,
    oldest=1,
    older="read as it is: what it lacks is empty; `wavecheck migrate` writes it as the current one",
    again="wavecheck run",
    where="[`run`, `matrix`, `shrink`, `explore`](json.md#failure-files)",
)
RUN = Form(
    "run JSON",
    "schema",
    current=1,
    oldest=1,
    older="there is none",
    again="wavecheck run --json FILE",
    where="[`run --json`](json.md#wavecheck-run---json)",
)
MATRIX = Form(
    "matrix JSON",
    "schema",
    current=1,
    oldest=1,
    older="there is none",
    again="wavecheck matrix",
    where="[`matrix.json`](json.md#wavecheck-matrix---json-and-matrixjson)",
)
REPORT = Form(
    "report JSON",
    "schema",
    current=1,
    oldest=1,
    older="there is none",
    again="wavecheck report RUN --format json",
    where="[`report --format json`](reports.md#schemas)",
)
BASELINE = Form(
    "baseline",
    "format",
    current=1,
    oldest=1,
    older="there is none",
    again="wavecheck baseline write RUN.json -o FILE",
    where="[baseline files](baseline.md)",
)
CAPTURE = Form(
    "capture",
    "wavecheck_capture",
    current=1,
    oldest=1,
    older="there is none",
    again="wavecheck capture",
    where="[capture files](capture.md)",
)
ADAPTER = Form(
    "adapter protocol",
    "version",
    current=1,
    oldest=1,
    older="there is none; `hello` offers all that are spoken, and the adapter chooses",
    again="the adapter",
    where="[the adapter protocol](adapter.md)",
)
FORMS: Mapping[str, Form] = {
    form.id: form for form in (SCENARIO, FAILURE, RUN, MATRIX, REPORT, BASELINE, CAPTURE, ADAPTER)
}


def refusal(form: Form, found: object, tool: object = None) -> Refusal | None:
    """Say why a version is not read; ``None``: it is.

    Args:
        form: what the file is.
        found: the value of its version key.
        tool: the version of wavecheck that the file names, if it names one.
    """
    # ``True`` and ``1.0`` equal 1, and no writer of ours writes them.
    if type(found) is int and found in form.versions:
        return None
    title = f"has {form.key} {found!r}, this version reads {form.key} {form.reads}"
    by = tool if isinstance(tool, str) and tool else None
    writer = "" if by is None else f" ({by})"
    if type(found) is not int:
        return Refusal(title, f"{form.key} is a whole number; a {form.id} is made by {form.again}")
    if found > form.current:
        return Refusal(title, f"it was made by a newer wavecheck{writer}: install that one")
    return Refusal(
        title,
        f"it was made by an older wavecheck{writer}, and is out of the support window ({WINDOW}); "
        f"make it again: {form.again}",
    )
