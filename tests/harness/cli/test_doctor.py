"""``wavecheck doctor``: what is missing is named, with what mends it, and decides the exit code."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from client.protocol.profiles import NEWEST
from harness.doctor import frontends, libraries, machine, trial
from harness.doctor.finding import Finding, State
from harness.targets.vllm_rs.fetch import FRONTEND_DIR_VARIABLE

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke

NOTHING = "no-such-library-at-all"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No binary of this machine is seen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAVECHECK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(FRONTEND_DIR_VARIABLE, raising=False)
    return tmp_path / "cache"


def requirements(monkeypatch: pytest.MonkeyPatch, *texts: str, extras: tuple[str, ...]) -> None:
    """What the installation says that it needs."""
    real = importlib.metadata.metadata("wavecheck")
    del real["Provides-Extra"]
    for extra in extras:
        real["Provides-Extra"] = extra
    monkeypatch.setattr(importlib.metadata, "requires", lambda _name: list(texts))
    monkeypatch.setattr(importlib.metadata, "metadata", lambda _name: real)


def by_name(found: object) -> dict[str, Finding]:
    return {one.name: one for one in found}  # type: ignore[attr-defined]


def test_machine_that_can_run_is_told_so(invoke: Invoke) -> None:
    result = invoke("doctor", "--json", "-")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    states = {one["name"]: one["state"] for one in document["findings"]}
    for name in ("python", "libraries", "scenarios", "sockets ipc", "sockets tcp", "output folder"):
        assert states[name] == "ok"
    assert states["real frontend"] == "optional"
    assert document["summary"]["missing"] == 0
    assert document["summary"]["ok"] + document["summary"]["optional"] == len(states)
    assert "all that zmq needs is here" in result.stderr


def test_library_that_is_missing_is_named_with_the_command(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements(monkeypatch, f"{NOTHING}<3,>=2", "click>=8", extras=())
    result = invoke("doctor")
    assert result.exit_code == 3
    assert f"missing    libraries: {NOTHING} is not installed" in result.output
    assert f"mend:      {sys.executable} -m pip install '{NOTHING}<3,>=2'" in result.output
    assert "1 thing that zmq needs is missing" in result.output


def test_library_that_is_too_old_is_named_with_both_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requirements(monkeypatch, "click>=99", extras=())
    found = by_name(libraries.libraries("sim"))["libraries"]
    version = importlib.metadata.version("click")
    assert found.found == f"click is {version}, wanted is >=99"
    assert found.state is State.MISSING


@pytest.mark.parametrize(("target", "state"), [("zmq", State.OPTIONAL), ("vllm-rs", State.MISSING)])
def test_extra_counts_for_targets_that_need_it(
    monkeypatch: pytest.MonkeyPatch, target: str, state: State
) -> None:
    requirements(monkeypatch, f"{NOTHING}>=1; extra == 'frontend'", extras=("frontend",))
    found = by_name(libraries.libraries(target))["extra frontend"]
    assert found.state is state
    assert found.mend.endswith(f"pip install '{NOTHING}>=1'")


def test_extra_that_the_installation_does_not_know_is_not_called_fine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requirements(monkeypatch, "click>=8", extras=())
    found = by_name(libraries.libraries("sim"))["extra dask"]
    assert found.state is State.OPTIONAL
    assert "before there was such an extra" in found.found


def test_python_outside_the_range_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries.platform, "python_version", lambda: "3.9.1")
    assert libraries.python().state is State.MISSING
    monkeypatch.setattr(libraries.platform, "python_version", lambda: "3.12.0rc1")
    assert libraries.python().state is State.OK


def test_sockets_that_cannot_be_bound_are_missing_but_not_for_sim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine.tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", _long_folder())
    for target, state in (("zmq", State.MISSING), ("sim", State.OPTIONAL)):
        found = by_name(machine.sockets(target))
        assert found["sockets ipc"].state is state
        assert "TMPDIR" in found["sockets ipc"].mend
        assert found["sockets tcp"].state is State.OK


def _long_folder() -> str:
    path = Path.cwd() / ("x" * 60) / ("y" * 60)
    path.mkdir(parents=True)
    return str(path)


def test_message_that_does_not_arrive_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_MESSAGE", b"")
    monkeypatch.setattr(machine, "ANSWER_MS", 1)
    monkeypatch.setattr(machine.zmq.Socket, "send", lambda *_: None)
    found = by_name(machine.sockets("zmq"))
    assert found["sockets tcp"].state is State.MISSING
    assert "nothing arrived" in found["sockets tcp"].found


@pytest.mark.parametrize("how", ["full", "read-only", "file"])
def test_folder_in_which_nothing_can_be_written_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    if how == "full":
        usage = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
        monkeypatch.setattr(machine.shutil, "disk_usage", lambda _path: usage)
    elif how == "file":
        (tmp_path / "wavecheck-out").write_text("")
    else:

        def refuse(**_more: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(machine.tempfile, "TemporaryFile", refuse)
    found = by_name(machine.folders("sim"))["output folder"]
    assert found.state is State.MISSING
    assert "--out" in found.mend


def test_descriptors_below_the_number_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (256, 4096))
    (found,) = machine.descriptors()
    assert (found.state, found.mend) == (State.OPTIONAL, "ulimit -n 1024")


def test_damaged_binary_is_missing_for_its_target(own_cache: Path) -> None:
    path = own_cache / "frontends" / NEWEST / "vllm-rs"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half")
    path.with_name("vllm-rs.sha256").write_text("0" * 64)
    for target, state in (("vllm-rs", State.MISSING), ("zmq", State.OPTIONAL)):
        (found,) = frontends.binaries(target)
        assert found.state is state
        assert "does not match its checksum" in found.found
        assert found.mend == f"wavecheck frontend fetch {NEWEST}"


def test_binary_that_cannot_be_started_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "binaries" / NEWEST / "vllm-rs"
    path.parent.mkdir(parents=True)
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    monkeypatch.setenv(FRONTEND_DIR_VARIABLE, str(tmp_path / "binaries"))
    (found,) = frontends.binaries("vllm-rs")
    assert found.state is State.MISSING
    assert "cannot be executed" in found.found


def test_platform_without_binaries_is_told_of_the_other_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frontends.platform, "system", lambda: "Darwin")
    (found,) = frontends.binaries("vllm-rs")
    assert found.state is State.MISSING
    assert "--frontend reference" in found.mend


def test_browser_without_its_driver_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("selenium")
    monkeypatch.setattr(frontends.shutil, "which", lambda name: None if "driver" in name else name)
    (found,) = frontends.browser()
    assert (found.state, found.found) == (State.OPTIONAL, "chromedriver not found")


def test_scenario_that_does_not_hold_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = trial.run_scenario
    monkeypatch.setattr(
        trial,
        "run_scenario",
        lambda loaded, _options: real(loaded, trial.RunOptions(profile="0.1")),
    )
    with pytest.raises(ValueError, match=r"0\.1"):
        list(trial.scenarios())
    monkeypatch.setattr(trial, "PLAYED", "waves/gone")
    (found,) = trial.scenarios()
    assert found.state is State.MISSING


HIDDEN = """\
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "yaml":
            raise ModuleNotFoundError("No module named 'yaml'", name="yaml")

sys.meta_path.insert(0, Hidden())
from harness.cli import main
main()
"""


def test_library_without_which_nothing_starts_is_one_clear_message() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, "doctor"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stderr.startswith("error: the library yaml, which this command needs")
    assert "pip install 'pyyaml" in done.stderr
    assert "Traceback" not in done.stderr
