"""The forms that ``wavecheck report`` writes, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from harness.reports.exports.html import page
from harness.reports.exports.junit import report_junit
from harness.reports.exports.markdown import markdown
from harness.reports.exports.mermaid import mermaid
from harness.reports.exports.perfetto import perfetto
from harness.reports.inputs.failures import Doc
from harness.reports.inputs.report import Made
from harness.reports.junit import junit
from harness.reports.told.model import Report

HTML = "html"
XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


class CannotTellError(Exception):
    """This form has no room for that report (exit code 2); the message says what to do."""


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a report.

    Attributes:
        suffixes: endings of files that mean this form; the first is that of a file that it names.
        events: whether it tells the events of a run.
        text: makes it.
    """

    suffixes: tuple[str, ...]
    events: bool
    text: Callable[[Made, Doc], str]


def _html(made: Made, _doc: Doc) -> str:
    return page(made.report)


def _junit(made: Made, doc: Doc) -> str:
    if made.run is None:
        report = report_junit(made.report)
    else:
        run, (allow_known, strict) = made.run, made.flags
        preferred = {
            id(result): names for result, names in zip(run.results, run.preferred, strict=True)
        }
        report = junit(
            run.results,
            doc,
            target=run.target,
            allow_known=allow_known,
            strict=strict,
            preferred=lambda result: preferred[id(result)],
            rule=run.rule,
        )
    text: str | bytes = report.tostring()  # type: ignore[no-untyped-call]  # untyped upstream
    return XML_HEAD + (text.decode() if isinstance(text, bytes) else text) + "\n"


def _json(made: Made, _doc: Doc) -> str:
    return json.dumps(msgspec.to_builtins(made.report), indent=1, allow_nan=False) + "\n"


def _markdown(made: Made, _doc: Doc) -> str:
    return markdown(made.report)


def _mermaid(made: Made, _doc: Doc) -> str:
    violations = made.report.violations
    if len(violations) != 1:
        names = ", ".join(dict.fromkeys(v.scenario for v in violations[:5]))
        msg = "a Mermaid diagram shows one violation, and this report has "
        msg += f"{len(violations)}: choose one with --scenario ({names})" if violations else "none"
        raise CannotTellError(msg)
    return mermaid(violations[0])


def _perfetto(made: Made, _doc: Doc) -> str:
    if not any(v.trace is not None for v in made.report.violations):
        msg = "a trace needs the events of a violation, and this report has none"
        raise CannotTellError(msg + _why(made.report))
    return perfetto(made.report)


def _why(report: Report) -> str:
    missing = [v.trace_missing for v in report.violations if v.trace_missing]
    return f": {missing[0]}" if missing else ""


FORMS: Mapping[str, Form] = {
    HTML: Form((".html", ".htm"), events=True, text=_html),
    "junit": Form((".xml",), events=False, text=_junit),
    "json": Form((".json",), events=True, text=_json),
    "markdown": Form((".md", ".markdown"), events=True, text=_markdown),
    "mermaid": Form((".mmd", ".mermaid"), events=True, text=_mermaid),
    "perfetto": Form((".perfetto.json", ".trace.json"), events=True, text=_perfetto),
}
"""Forms by name."""


def form_of(name: str) -> str | None:
    """The form that the ending of a file name means, or ``None``."""
    lower = name.lower()
    found = [
        (len(suffix), form)
        for form, told in FORMS.items()
        for suffix in told.suffixes
        if lower.endswith(suffix)
    ]
    return max(found)[1] if found else None
