"""Every bound in ``docs/limits.md``: the number is the code's, and it holds at, below and above."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import msgpack
import pytest

from client.config import Bootstrapped, ClientConfig, validate
from client.errors import ClientError
from client.external_coordinator import ExternalCoordinatorState, Note
from client.protocol import codec_kept, codec_msgpack, codec_startup
from client.protocol.codec import Codec, DecodeError, EncodeError, ExtValueDecodeError
from client.protocol.codec_kept import Table
from client.protocol.ids import identity_from_rank
from client.protocol.messages import CallId, UtilityCall
from client.protocol.profiles import NEWEST, profile_for
from client.protocol.strict_json import loads
from harness import failure as failures
from harness.failure import FailureFileError, read_failure
from harness.reports.inputs import files as report_files
from harness.scenario import loader
from harness.scenario.loader import ScenarioFileError
from harness.scenario.positions import YamlProblemError, parse_yaml
from harness.shortened import shortened
from harness.tape import Tape, TapeFormatError
from harness.targets.adapter import process as adapter_process
from harness.targets.adapter.process import AdapterProcess
from tests.fuzz.families.files import STORY

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
CODEC = Codec(profile_for(NEWEST))


def rows():
    table = PAGE.read_text(encoding="utf-8").partition("<!-- bounds -->")[2]
    table = table.partition("<!-- end bounds -->")[0]
    found = re.findall(r"^\| (.+?) \| ([\d,]+) \| `([\w.]+)` \|", table, re.MULTILINE)
    return {place: int(number.replace(",", "")) for _, number, place in found}


def in_code(place):
    module, _, name = place.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        module, _, cls = module.rpartition(".")
        field = getattr(importlib.import_module(module), cls).model_fields[name]
        return next(bound.le for bound in field.metadata if hasattr(bound, "le"))


@pytest.mark.parametrize("place", rows())
def test_number_on_the_page_is_that_of_the_code(place):
    assert rows()[place] == in_code(place)


def taken(error, act, *args, **more):
    """Whether ``act`` goes through; any other error than the given one is the test's failure."""
    try:
        act(*args, **more)
    except error:
        return False
    return True


# --- one trial for each bound: size → whether it was taken -----------------------------------------


def body_bytes(n, monkeypatch, _tmp_path):
    monkeypatch.setattr(codec_msgpack, "BODY_BYTES_MAX", 5_000)
    n += 5_000 - (64 << 20)
    body = msgpack.packb([0, [], None, 0.0, [1, None, [None, "x"]]])
    hole = msgpack.packb("x")
    text = "y" * (n - len(body) + len(hole) - 3)
    body = body.replace(hole, msgpack.packb(text))
    assert len(body) == n
    read = taken(DecodeError, CODEC.classify, [body])
    call = UtilityCall(0, CallId(1), "m", [text])
    room = len(CODEC.encode_utility(UtilityCall(0, CallId(1), "m", ["y" * 300]))[1]) - 300
    longer = UtilityCall(0, CallId(1), "m", ["y" * (n - room)])
    assert call.method == "m"
    assert taken(EncodeError, CODEC.encode_utility, longer) == read
    return read


def nesting(n, _monkeypatch, _tmp_path):
    inner = b"\x91" * (n - 3) + b"\xc0"
    body = msgpack.packb([0, [], None, 0.0, [1, None, [None, "hole"]]]).replace(
        msgpack.packb("hole"), inner
    )
    value = None
    for _ in range(n - 1):
        value = [value]
    read = taken(DecodeError, CODEC.classify, [body])
    assert taken(EncodeError, CODEC.encode_utility, UtilityCall(0, CallId(1), "m", value)) == read
    return read


def dimensions(n, _monkeypatch, _tmp_path):
    row = ["r", [1], *[None] * (len(CODEC.profile.output_field_names) - 2)]
    row[CODEC.profile.output_field_names.index("num_nans_in_logits")] = 0
    row[CODEC.profile.output_field_names.index("routed_experts")] = ["|u1", [n // 2, 2], 1]
    with pytest.raises(ExtValueDecodeError) as caught:
        CODEC.decode_outputs([msgpack.packb([0, [row]]), b"1"])
    return "exceed 64 bits" not in str(caught.value)


def ranks(n, _monkeypatch, _tmp_path):
    mode = Bootstrapped("inproc://a", "inproc://b", 0, n, n)
    state = ExternalCoordinatorState(profile_for(NEWEST), 1, wave_coordination=True, now=0.0)
    noted = [each for each in state.on_scale(n) if isinstance(each, Note)]
    assert len(state.counts()) == (1 if noted else n)
    assert taken(ValueError, identity_from_rank, n - 1) == (not noted)
    allowed = taken(ClientError, validate, ClientConfig(profile_for(NEWEST), mode))
    assert allowed == (not noted)
    return not noted


def kept_bytes(n, _monkeypatch, _tmp_path):
    table = Table()
    table.keep("a", "first", 0)
    table.keep("b", "second", n)
    return table.get("a") is not None and table.get("b") is not None


def short_bytes(n, _monkeypatch, _tmp_path):
    body = msgpack.packb({"status": "HELLO", "x": "y" * (n - 20)})
    body = msgpack.packb({"status": "HELLO", "x": "y" * (n - 20 + n - len(body))})
    assert len(body) == n
    before = codec_startup._kept_greeting.cache_info().misses
    codec_startup.decode_hello_or_ready(body)
    return codec_startup._kept_greeting.cache_info().misses > before


def scenario_bytes(n, _monkeypatch, tmp_path):
    path = tmp_path / "story.yaml"
    path.write_text(STORY + "#" * (n - len(STORY)), encoding="utf-8")
    return taken(ScenarioFileError, loader.load, path)


def aliases(n, _monkeypatch, _tmp_path):
    return taken(YamlProblemError, parse_yaml, "a: &a x\nb: [" + ", ".join(["*a"] * n) + "]")


def yaml_depth(n, _monkeypatch, _tmp_path):
    return taken(YamlProblemError, parse_yaml, "[" * (n - 1) + "x" + "]" * (n - 1))


def yaml_values(n, _monkeypatch, _tmp_path):
    return taken(YamlProblemError, parse_yaml, "[" + "1," * (n - 1) + "]")


def digits(n, _monkeypatch, _tmp_path):
    return taken(YamlProblemError, parse_yaml, f"a: {'1' * n}")


def engines(n, _monkeypatch, tmp_path):
    path = tmp_path / "story.yaml"
    path.write_text(f"topology: {{engines: {n}}}\n{STORY}", encoding="utf-8")
    return taken(ScenarioFileError, loader.load, path)


def written(tmp_path, **changes):
    fields = {
        "scenario_id": "a/b", "scenario_text": STORY, "target": "sim", "frontend": None,
        "profile": NEWEST, "mutant": None, "violated": "request.accepted-ends", "witness": [],
        "digest": "", "tape": None,
    }  # fmt: skip
    path = tmp_path / "failure.json"
    text = failures.failure_text(failures.FailureFile(**{**fields, **changes}))
    path.write_text(text, encoding="utf-8")
    return path


def failure_bytes(n, _monkeypatch, tmp_path):
    path = written(tmp_path)
    path.write_text(path.read_text("utf-8").ljust(n), encoding="utf-8")
    return taken(FailureFileError, read_failure, path)


def tape_choices(n, _monkeypatch, _tmp_path):
    return taken(TapeFormatError, Tape.from_json, {"format": 1, "choices": f"0/2*{n}"})


def adapter_line(n, monkeypatch, _tmp_path):
    process = AdapterProcess(["/nowhere"], {})
    monkeypatch.setattr(adapter_process, "LINE_BYTES_MAX", 1_000)
    process._split(b"x" * (n - (16 << 20) + 1_000))
    return process.failure is None


def adapter_lines(n, monkeypatch, _tmp_path):
    monkeypatch.setattr(adapter_process, "LINES_MAX", 3)
    process = AdapterProcess(["/nowhere"], {})
    process._on_line = lambda _line: False
    for _ in range(n - 1_000_000 + 3):
        process._take_line(b'{"say": "waiting", "gate": "g", "change": 1}')
    return process.failure is None


def report_bytes(n, monkeypatch, tmp_path):
    monkeypatch.setattr(report_files, "BYTES_MAX", 1_000)
    path = tmp_path / "run.json"
    path.write_text('{"a": 1}'.ljust(n - (256 << 20) + 1_000), encoding="utf-8")
    return taken(report_files.InputError, report_files.read_json, path)


def message_chars(n, _monkeypatch, _tmp_path):
    return shortened("x" * n) == "x" * n


TRIALS = {
    "client.protocol.codec_msgpack.BODY_BYTES_MAX": body_bytes,
    "client.protocol.codec_msgpack.NESTING_MAX": nesting,
    "client.protocol.codec_values.U64_MAX": dimensions,
    "client.protocol.ids.RANKS_MAX": ranks,
    "client.protocol.codec_kept.KEPT_BYTES": kept_bytes,
    "client.protocol.codec_kept.SHORT_BYTES": short_bytes,
    "harness.scenario.loader.FILE_BYTES_MAX": scenario_bytes,
    "harness.scenario.positions.ALIASES_MAX": aliases,
    "harness.scenario.positions.DEPTH_MAX": yaml_depth,
    "harness.scenario.positions.VALUES_MAX": yaml_values,
    "harness.scenario.positions.DIGITS_MAX": digits,
    "harness.scenario.model.Topology.engines": engines,
    "harness.failure.FILE_BYTES_MAX": failure_bytes,
    "harness.tape.CHOICES_MAX": tape_choices,
    "harness.targets.adapter.agreed.LINE_BYTES_MAX": adapter_line,
    "harness.targets.adapter.process.LINES_MAX": adapter_lines,
    "harness.reports.inputs.files.BYTES_MAX": report_bytes,
    "harness.shortened.MESSAGE_CHARS_MAX": message_chars,
}
"""Bounds of large things are moved down for their trial, and the size with them."""
ELSEWHERE = {
    "harness.failure.EVENTS_MAX": "test_events_of_a_failure_file_are_bounded",
    "harness.reference_frontend.http_server.BODY_BYTES_MAX": "test_body_above_the_bound_is_answered_413",
}


def test_every_bound_on_the_page_is_tried():
    assert set(rows()) == set(TRIALS) | set(ELSEWHERE)
    assert all(name in globals() for name in ELSEWHERE.values())


@pytest.mark.parametrize("place", TRIALS)
def test_bound_holds_below_at_and_above(place, monkeypatch, tmp_path):
    bound, trial = rows()[place], TRIALS[place]
    seen = [trial(size, monkeypatch, tmp_path) for size in (bound - 1, bound, bound + 1)]
    assert seen == [True, True, False]


@pytest.mark.parametrize("size", [4_999, 5_000, 5_001])
def test_events_of_a_failure_file_are_bounded(size, tmp_path):
    from types import SimpleNamespace

    from harness.runner import RunOptions

    loaded = SimpleNamespace(id="a/b", text=STORY)
    made = failures.FailureFile.of(
        loaded=loaded, options=RunOptions(), profile=NEWEST, violated="request.accepted-ends",
        witness=[], attempt_digest="", tape=None, events=["x"] * size,
    )  # fmt: skip
    assert len(made.events) == min(size, 5_000)


@pytest.mark.zmq
@pytest.mark.parametrize(("more", "status"), [(-1, b"400"), (0, b"400"), (1, b"413")])
def test_body_above_the_bound_is_answered_413(more, status, served):
    size = in_code("harness.reference_frontend.http_server.BODY_BYTES_MAX") + more
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    )
    answer = served.servers.http(head.encode() + b"[" + b" " * (size - 2) + b"x")
    assert answer[9:12] == status


@pytest.fixture(scope="module")
def served():
    pytest.importorskip("aiohttp", reason="the extra [frontend] is not installed")
    from tests.fuzz.families.fronts import Http

    made = Http()
    yield made
    made.close()


# --- JSON ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": NaN}', "NaN is no JSON number"),
        ("[-1e999]", "-1e999 is larger than any number"),
        ("[-Infinity]", "-Infinity is no JSON number"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "key 'c' stands twice"),
        ("[" * 100_000, "nest too deep"),
    ],
)
def test_json_that_the_standard_library_takes_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        loads(text)


def test_lenient_reader_takes_what_the_library_takes_but_no_depth():
    assert loads('{"a": 1, "a": 2}', lenient=True) == {"a": 2}
    with pytest.raises(ValueError, match="nest too deep"):
        loads("[" * 100_000, lenient=True)


def test_strict_reader_reads_json():
    value = {"a": [1, 2.5, None, True, "é"], "b": {}}
    assert loads(json.dumps(value)) == value
    assert codec_kept.KEPT_BYTES > codec_kept.SHORT_BYTES
