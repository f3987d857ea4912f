"""Sources of a release: whole and unchanged, or not used."""

from __future__ import annotations

import hashlib

import pytest

from client.protocol.profiles import RELEASES
from harness.targets.base import TargetError
from harness.targets.vllm_py import checksums as table
from harness.targets.vllm_py import sources
from harness.targets.vllm_py.members import EXECUTED, member_of
from harness.targets.vllm_rs.releases import UnknownFrontendError

TEXTS = {"vllm/envs.py": "A = 1\n", "vllm/v1/engine/coordinator.py": "B = 2\n"}
SUMS = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in TEXTS.items()}


def write(folder, **changed):
    for name, text in TEXTS.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(changed.get(file.stem, text))


@pytest.fixture
def small(monkeypatch, tmp_path):
    """One release with two files, and an empty cache."""
    monkeypatch.setattr(sources, "checksums", lambda: {"0.33.0": SUMS})
    monkeypatch.setenv("WAVECHECK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WAVECHECK_FRONTEND_DIR", raising=False)
    return tmp_path


def test_folder_of_the_users_own_comes_first(small, monkeypatch):
    write(small / "mine" / "0.33.0")
    monkeypatch.setenv("WAVECHECK_FRONTEND_DIR", str(small / "mine"))
    monkeypatch.setattr(sources, "members", lambda *_args: pytest.fail("fetched"))
    assert sources.sources("v0.33.0") == small / "mine" / "0.33.0"


def test_folder_with_an_edited_file_is_passed_over(small, monkeypatch):
    write(small / "mine" / "0.33.0", envs="A = 9\n")
    monkeypatch.setenv("WAVECHECK_FRONTEND_DIR", str(small / "mine"))
    monkeypatch.setattr(sources, "members", lambda _r, _names, into, _say: write(into))
    assert sources.sources("0.33.0") == small / "cache" / "sources" / "0.33.0"


def test_second_use_takes_the_cache(small, monkeypatch):
    monkeypatch.setattr(sources, "members", lambda _r, _names, into, _say: write(into))
    first = sources.sources("0.33.0")
    monkeypatch.setattr(sources, "members", lambda *_args: pytest.fail("fetched"))
    assert sources.sources("0.33.0") == first


def test_wheel_with_other_files_is_refused(small, monkeypatch):
    monkeypatch.setattr(sources, "members", lambda _r, _n, into, _say: write(into, envs="X\n"))
    with pytest.raises(TargetError, match=r"not the one that is known: vllm/envs.py: sha256 is"):
        sources.sources("0.33.0")
    assert sources.available("0.33.0") is None


def test_unknown_release_is_refused():
    with pytest.raises(UnknownFrontendError, match="known releases"):
        sources.resolve("0.1.0")


def test_profile_of_another_release_is_refused():
    with pytest.raises(UnknownFrontendError, match="contradicts"):
        sources.resolve("0.33.0", "0.32.0")


def test_folder_without_vllm_is_refused(tmp_path):
    with pytest.raises(UnknownFrontendError, match="holds no sources"):
        sources.resolve(str(tmp_path))


def test_tree_of_ones_own_needs_a_profile_and_says_so(tmp_path):
    write(tmp_path)
    with pytest.raises(UnknownFrontendError, match="--profile"):
        sources.resolve(str(tmp_path))
    tree = sources.resolve(str(tmp_path), "0.33.0")
    assert (tree.folder, tree.release, tree.checksums) == (tmp_path, "0.33.0", None)
    assert "not compared with a release" in tree.note


def test_file_outside_the_tree_is_a_fault(tmp_path):
    tree = sources.SourceTree(tmp_path, "0.33.0", SUMS)
    inside = (tmp_path / "vllm/envs.py").resolve()
    assert tree.fault_of(inside, SUMS["vllm/envs.py"]) is None
    assert "recorded is" in str(tree.fault_of(inside, "0" * 64))
    outside = tmp_path.resolve().parent / "other.py"
    assert "is not below" in str(tree.fault_of(outside, SUMS["vllm/envs.py"]))


# --- the table of checksums -----------------------------------------------------------------


def test_table_has_every_release_and_the_judged_modules():
    found = table.checksums()
    assert set(found) == set(RELEASES)
    for release, members in found.items():
        for module in ("vllm.v1.engine.coordinator", "vllm.v1.engine.core_client"):
            assert member_of(module, package=False) in members, release
        assert all(len(sha256) == 64 for sha256 in members.values())


def test_record_is_read_for_executed_modules_only():
    record = (
        "vllm/v1/engine/coordinator.py,sha256=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8,12\n"
        "vllm/model_executor/models/llama.py,sha256=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8,12\n"
        "vllm/v1/engine/__init__.py,,\n"
    )
    assert table.executed_in(record) == {"vllm/v1/engine/coordinator.py": bytes(range(32)).hex()}
    assert "vllm.v1.engine.coordinator" in EXECUTED


def test_new_release_is_merged_with_equal_files():
    record = "vllm/envs.py,sha256=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8,12\n"
    sha256 = bytes(range(32)).hex()
    merged = table.with_releases({"0.33.0": {"vllm/envs.py": sha256}}, [("0.34.0", record)])
    assert merged == {"vllm/envs.py": {sha256: ["0.33.0", "0.34.0"]}}
