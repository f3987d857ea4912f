"""A child that executes vLLM's classes is believed only if they are those of the release."""

from __future__ import annotations

import hashlib
import json
import subprocess

import pytest

from harness.targets.base import TargetError
from harness.targets.vllm_py import question
from harness.targets.vllm_py.sources import SourceTree

SOURCE = b"class Ours: ...\n"
RIGHT = hashlib.sha256(SOURCE).hexdigest()


def asked(folder, monkeypatch, *, proofs=(), code=0, stderr="", late=False, checksums=True):
    """Ask a child that says this; what it was told, and what came of it."""
    told = []

    def run(command, **options):
        assert command[-2:] == ["-m", "some.module"]
        told.append(json.loads(options["input"]))
        if late:
            raise subprocess.TimeoutExpired(command, options["timeout"])
        said = json.dumps({"proofs": list(proofs), "answer": 7})
        return subprocess.CompletedProcess(command, code, said, stderr)

    monkeypatch.setattr(subprocess, "run", run)
    tree = SourceTree(folder, "0.33.0", {"vllm/a.py": RIGHT} if checksums else None)
    said = question.ask(
        "some.module", tree, {"probe": "p"}, what="the probe p of 0.33.0", timeout_s=3.0
    )
    return told, said


def proof(file, sha256=RIGHT):
    return {"name": "vllm.a.Theirs", "file": str(file), "sha256": sha256}


def test_child_is_told_where_the_sources_are_and_its_answer_is_passed_on(tmp_path, monkeypatch):
    told, said = asked(tmp_path, monkeypatch, proofs=[proof(tmp_path / "vllm" / "a.py")])
    assert told == [{"folder": str(tmp_path), "checksums": {"vllm/a.py": RIGHT}, "probe": "p"}]
    assert said["answer"] == 7


def test_tree_of_the_users_own_has_no_checksums(tmp_path, monkeypatch):
    found = [proof(tmp_path / "vllm" / "a.py", "00")]
    told, said = asked(tmp_path, monkeypatch, proofs=found, checksums=False)
    assert (told[0]["checksums"], said["answer"]) == (None, 7)


@pytest.mark.parametrize("where", ["elsewhere", "changed"])
def test_class_that_is_not_the_releases_is_refused(where, tmp_path, monkeypatch):
    folder = tmp_path / "sources"
    file = (tmp_path if where == "elsewhere" else folder) / "vllm" / "a.py"
    found = proof(file, "00" if where == "changed" else RIGHT)
    reason = "is not below" if where == "elsewhere" else "the sha256 of"
    with pytest.raises(TargetError, match=f"vllm.a.Theirs is not vLLM's: .*{reason}"):
        asked(folder, monkeypatch, proofs=[found])


def test_each_of_several_classes_must_be_the_releases(tmp_path, monkeypatch):
    own = tmp_path / "vllm" / "a.py"
    with pytest.raises(TargetError, match="is not vLLM's"):
        asked(tmp_path, monkeypatch, proofs=[proof(own), proof(own, "00")])


def test_child_that_fails_is_an_error_with_its_last_lines(tmp_path, monkeypatch):
    lines = "\n".join(f"line {n}" for n in range(30))
    with pytest.raises(TargetError) as caught:
        asked(tmp_path, monkeypatch, code=1, stderr=lines)
    assert str(caught.value).splitlines() == [
        "the probe p of 0.33.0 failed:",
        *(f"line {n}" for n in range(18, 30)),
    ]


def test_child_that_does_not_end_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(TargetError, match=r"^the probe p of 0.33.0 took longer than 3 s$"):
        asked(tmp_path, monkeypatch, late=True)
