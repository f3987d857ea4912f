"""What an installation brings: its licences, the audit's words, the bill of materials."""

from __future__ import annotations

import json

import pytest

from tests.dependencies import audit, licences, sbom
from tests.dependencies.closure import DEVELOPMENT, SHIPPED, closure

LISTED = licences.rows(licences.PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def installed() -> dict[str, str]:
    """Licences of all that is installed here because of us."""
    return licences.licences_of(closure((*SHIPPED, *DEVELOPMENT)))


def test_each_package_that_is_installed_is_listed_with_its_licence(installed):
    missing = {name: told for name, told in installed.items() if name not in LISTED}
    assert not missing, f"make licences lists them: {missing}"
    changed = {
        name: (LISTED[name][0], told) for name, told in installed.items() if LISTED[name][0] != told
    }
    assert not changed, f"listed and found: {changed}"


def test_each_listed_licence_is_allowed():
    for_users = licences.PERMISSIVE | licences.WITH_FILES
    wrong = {
        name: licence
        for name, (licence, who) in LISTED.items()
        if not licences.allowed(
            licence, for_users | (licences.TOOLS_ONLY if who == "developers" else set())
        )
    }
    assert not wrong


def test_packages_of_users_are_listed_as_such(installed):
    users = closure(SHIPPED)
    assert users
    assert {name for name in users if LISTED[name][1] != "users"} == set()
    assert {name for name in installed if name not in users and LISTED[name][1] == "users"} == set()


@pytest.mark.parametrize(
    ("expression", "fine"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0", True),
        ("MIT AND GPL-3.0", False),
        ("(Apache-2.0 AND MIT) OR GPL-3.0", True),
        ("LGPL", False),
        ("UNKNOWN", False),
    ],
)
def test_a_licence_is_allowed_if_one_choice_of_it_is(expression, fine):
    assert licences.allowed(expression, licences.PERMISSIVE) is fine


def test_licences_of_one_package_in_two_spellings_are_told_once():
    assert licences.short("DFSG approved; MIT License") == "MIT"
    assert licences.short("Apache Software License; MIT License") == "Apache-2.0 AND MIT"
    assert licences.short("") == "UNKNOWN"


def test_the_page_keeps_rows_of_other_pythons():
    page = f"head\n{licences.BEGIN}\n\n| package | licence | for |\n|---|---|---|\n| `old` | MIT | users |\n\n{licences.END}\ntail\n"
    again = licences.written(page, {"new": "ISC"}, users=())
    assert licences.rows(again) == {"old": ("MIT", "users"), "new": ("ISC", "developers")}
    assert (again[:5], again[-5:]) == ("head\n", "tail\n")


# --- audit ----------------------------------------------------------------------------------


def answer(*dependencies) -> str:
    return json.dumps({"dependencies": list(dependencies), "fixes": []})


CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "X-1", "fix_versions": ["3"]}]}
UNSEEN = {"name": "c", "skip_reason": "not found"}


def test_an_audit_without_findings_says_how_many_it_looked_at():
    came = audit.read(answer(CLEAN), "")
    assert (came.code, came.text) == (0, "1 dependencies audited, 0 known vulnerabilities")


def test_an_audit_tells_each_finding_and_fails():
    came = audit.read(answer(CLEAN, BAD), "")
    assert came.code == 1
    assert "  FOUND b 2: X-1, mended in 3" in came.text


def test_an_audit_that_saw_a_part_says_what_it_did_not_see():
    came = audit.read(answer(CLEAN, UNSEEN), "")
    assert came.code == 0
    assert came.text.splitlines()[1] == "  NOT RUN: c: not found"


@pytest.mark.parametrize(
    ("out", "err", "why"),
    [
        (answer(UNSEEN), "", "c: not found"),
        ("", "boom\nno route to host", "no route to host"),
        ("", "", "it said nothing"),
    ],
)
def test_an_audit_that_saw_nothing_is_not_run(out, err, why):
    came = audit.read(out, err)
    assert came.code == 0
    assert came.text == f"NOT RUN: no dependency could be audited: {why}"


# --- bill of materials ----------------------------------------------------------------------

WHOLE = {
    "metadata": {"component": {"bom-ref": "root"}},
    "components": [{"name": "A_a", "bom-ref": "A"}, {"name": "b", "bom-ref": "B"}],
    "dependencies": [
        {"ref": "root", "dependsOn": ["A", "B"]},
        {"ref": "A", "dependsOn": ["B"]},
        {"ref": "B"},
    ],
}


def test_a_bill_of_materials_has_no_reference_to_what_it_leaves_out():
    bill = sbom.only(WHOLE, {"a-a"})
    assert [each["bom-ref"] for each in bill["components"]] == ["A"]
    assert bill["dependencies"] == [
        {"ref": "root", "dependsOn": ["A"]},
        {"ref": "A", "dependsOn": []},
    ]


def test_a_bill_of_materials_that_lacks_a_package_is_refused():
    with pytest.raises(RuntimeError, match="says nothing of zzz"):
        sbom.only(WHOLE, {"a-a", "zzz"})
