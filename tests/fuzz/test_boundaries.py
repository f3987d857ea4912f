"""What files and messages of others cannot do: run code, leave a folder, or be reached from outside."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from harness.failure import FailureFile, place_failure, write_failure
from harness.reference_frontend.options import exposures
from harness.scenario.positions import YamlProblemError, parse_yaml

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    p for name in ("client", "mock_engines", "harness") for p in (ROOT / name).rglob("*.py")
)
DANGEROUS = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
WITH_PICKLE = {
    "harness/cli/executors_dask.py": "jobs to and results from a Dask cluster",
    "harness/cli/cluster_worker.py": "the same, at its other end",
}
"""Where pickle is, and for what: ``docs/limits.md`` says who is trusted there."""


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_no_module_reads_pickles_but_those_of_a_cluster():
    found = {str(path.relative_to(ROOT)) for path in SOURCES if DANGEROUS & set(imported(path))}
    assert found == set(WITH_PICKLE)


def test_page_on_bounds_says_who_is_trusted_with_pickle():
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    assert "--executor dask" in page
    assert "pickle" in page


def yaml_calls(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "yaml":
            yield node.attr


def test_yaml_is_read_by_safe_loaders_only():
    used = {name for path in SOURCES for name in yaml_calls(path)}
    assert used & {"load", "load_all", "full_load", "unsafe_load", "Loader", "FullLoader", "UnsafeLoader", "CLoader"} == set()  # fmt: skip
    assert "SafeLoader" in used


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: !!python/object/apply:os.system ['true']", "tag"),
        ("a: !!binary aGk=", "tag"),
        ("a: &a [*a]", "inside its own value"),
        ("a: &a [x, x]\n" + "\n".join(f"b{n}: *a" for n in range(51)), "aliases"),
        ("a: {<<: {b: 1}}", "merge keys"),
    ],
)
def test_yaml_that_does_more_than_hold_data_is_refused(text, why):
    with pytest.raises(YamlProblemError, match=why):
        parse_yaml(text)


def test_aliases_of_aliases_are_counted_by_what_they_expand_to():
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 8)]  # fmt: skip
    assert yaml.safe_load("\n".join(layers[:2])) is not None
    with pytest.raises(YamlProblemError, match="more than 20000 values"):
        parse_yaml("\n".join(layers))


def failure(scenario_id, violated="request.accepted-ends"):
    return FailureFile(
        scenario_id=scenario_id, scenario_text="", target="sim", frontend=None, profile="0.33.0",
        mutant=None, violated=violated, witness=[], digest="d", tape=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "../../up",
        "/etc/passwd",
        "a\x00b",
        "..",
        "",
        ".",
        "a/../../b",
        "\\\\host\\share",
        "é" * 400,
        "-rf",
        "\n",
    ],
)
def test_failure_file_of_any_scenario_stays_in_its_folder(name, tmp_path):
    out = tmp_path / "out"
    path = write_failure(failure(name, violated=name), out)
    assert path.parent == out
    assert path.resolve().parent == out.resolve()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert json.loads(path.read_text(encoding="utf-8"))["scenario_id"] == name


def test_link_of_the_name_of_a_failure_file_is_replaced_and_not_followed(tmp_path):
    outside = tmp_path / "precious"
    outside.write_text("mine", encoding="utf-8")
    out = tmp_path / "out"
    out.mkdir()
    found = failure("a/b")
    (out / found.name).symlink_to(outside)
    path = place_failure(found.name, "theirs", out)
    assert outside.read_text(encoding="utf-8") == "mine"
    assert path.read_text(encoding="utf-8") == "theirs"
    assert not path.is_symlink()


@pytest.mark.parametrize(
    ("host", "notes"),
    [("127.0.0.1", 0), ("localhost", 0), ("::1", 0), ("0.0.0.0", 1), ("10.0.0.7", 1), ("::", 1)],
)
def test_listener_that_others_can_reach_says_so(host, notes):
    assert len(exposures({"host": host, "data_parallel_address": "127.0.0.1"})) == notes
    assert len(exposures({"host": "127.0.0.1", "data_parallel_address": host})) == notes


def test_serve_says_on_standard_error_that_others_can_reach_it(tmp_path, monkeypatch):
    from harness.reference_frontend import server
    from harness.reference_frontend.options import serve_command

    monkeypatch.setattr(server, "run", lambda _settings: 0)
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    result = CliRunner().invoke(serve_command, [str(tmp_path), "--host", "0.0.0.0"])
    assert result.exit_code == 0
    assert "note: --host 0.0.0.0 is not the loopback interface" in result.stderr
    assert CliRunner().invoke(serve_command, [str(tmp_path)]).stderr == ""


def test_addresses_that_nobody_chose_are_on_the_loopback_interface():
    from client.transports.sockets import ZmqTransport

    transport = ZmqTransport(scheme="tcp")
    try:
        assert transport.endpoint("input").startswith("tcp://127.0.0.1:")
    finally:
        transport.close()
