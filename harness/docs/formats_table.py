"""The table of formats, their versions, and what becomes of older ones."""

from __future__ import annotations

from harness.docs.markdown import table
from harness.formats import FORMS


def formats_table() -> str:
    """Every form that outlives one command."""
    return table(
        ("form", "described in", "key", "written", "read", "older versions"),
        (
            (
                form.id,
                form.where,
                f"`{form.key}`",
                str(form.current),
                form.reads,
                form.older,
            )
            for form in FORMS.values()
        ),
    )
