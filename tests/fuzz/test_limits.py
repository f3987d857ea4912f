"""Every bound in ``docs/limits.md``: the number is the code's, and it holds at, below and above."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import msgpack
import pytest
from click.testing import CliRunner

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
from harness import journal
from harness.capture import file as capture_file
from harness.capture.recording import TO_ENGINE, Frame
from harness.capture.take import Capture, Story
from harness.cli import decode_cmd, last_failed
from harness.cli.main import cli
from harness.cli.output import CommandError
from harness.failure import FailureFileError, read_failure
from harness.reading import TooLargeError
from harness.reference_frontend.options import model_config
from harness.reports.inputs import files as report_files
from harness.scenario import loader
from harness.scenario import writing as scenario_writing
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


def capture_bytes(n, monkeypatch, tmp_path):
    monkeypatch.setattr(capture_file, "FILE_BYTES_MAX", 5_000)
    monkeypatch.setattr(decode_cmd, "FILE_BYTES_MAX", 5_000)
    n += 5_000 - (256 << 20)
    path = tmp_path / "some.capture"
    with path.open("w", encoding="utf-8") as file:
        capture_file.write(Capture("0", "sim", NEWEST, (), ()), file)
    path.write_text(path.read_text("utf-8").rstrip().ljust(n), encoding="utf-8")
    read = taken(capture_file.CaptureFileError, capture_file.read_file, path)
    frame = tmp_path / "frame"
    frame.write_bytes(b"\x00" * n)
    for name, given in ((str(frame), None), ("-", b"\x00" * n)):
        done = CliRunner().invoke(cli, ["decode", "--binary", name], input=given)
        assert ("larger than 5000 bytes" in done.output, done.exit_code == 2) == (not read,) * 2
    return read


def journal_bytes(n, monkeypatch, tmp_path):
    monkeypatch.setattr(journal, "FILE_BYTES_MAX", 1_000)
    path, line = tmp_path / "cells.jsonl", b'{"a": 1}'
    path.write_bytes(line.ljust(n - (256 << 20) + 999) + b"\n")
    if not taken(TooLargeError, lambda: journal.Journal(path, fresh=False).close()):
        journal.Journal(path, fresh=True).close()
        return path.stat().st_size > 0
    return True


def last_failed_bytes(n, monkeypatch, tmp_path):
    monkeypatch.setattr(last_failed, "FILE_BYTES_MAX", 1_000)
    last_failed.remember(tmp_path, [last_failed.Failed("a/b", "/a/b.yaml")])
    path = tmp_path / last_failed.FILE_NAME
    path.write_text(path.read_text("utf-8").ljust(n - (16 << 20) + 1_000), encoding="utf-8")
    return taken(CommandError, last_failed.recall, tmp_path)


def message_chars(n, _monkeypatch, _tmp_path):
    return shortened("x" * n) == "x" * n


def capture_with(tmp_path, **changes):
    path = tmp_path / "numbers.capture"
    frame = Frame(0, 0, 0, "input", TO_ENGINE, (b"\x00",))
    story = Story("s", "t", "played", "", NEWEST, (frame,), ())
    with path.open("w", encoding="utf-8") as file:
        for line in capture_file.lines_of(Capture("0", "sim", NEWEST, (), (story,))):
            known = {key: value for key, value in changes.items() if "socket" in line}
            file.write(json.dumps({**line, **known}) + "\n")
    return taken(capture_file.CaptureFileError, capture_file.read_file, path)


def capture_rank(n, _monkeypatch, tmp_path):
    assert capture_with(tmp_path, engine=capture_file.UNKNOWN_ENGINE)
    assert not capture_with(tmp_path, engine=capture_file.UNKNOWN_ENGINE - 1)
    return capture_with(tmp_path, engine=n)


def capture_number(n, _monkeypatch, tmp_path):
    assert not capture_with(tmp_path, n=-1)
    assert not capture_with(tmp_path, time_us=-1)
    assert capture_with(tmp_path, time_us=n) == capture_with(tmp_path, n=n)
    return capture_with(tmp_path, n=n)


def capture_nesting(n, _monkeypatch, tmp_path):
    value = []
    for _ in range(n - 2):
        value = [value]
    return capture_with(tmp_path, more=value)


def comment_chars(n, _monkeypatch, _tmp_path):
    return scenario_writing.comment("x" * n) == f"# {'x' * n}"


def config_bytes(n, _monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text("{}".ljust(n), encoding="utf-8")
    return taken(ValueError, model_config, str(tmp_path))


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
    "harness.capture.file.FILE_BYTES_MAX": capture_bytes,
    "harness.journal.FILE_BYTES_MAX": journal_bytes,
    "harness.cli.last_failed.FILE_BYTES_MAX": last_failed_bytes,
    "harness.capture.file.ENGINE_MAX": capture_rank,
    "harness.capture.parts.NESTING_MAX": capture_nesting,
    "harness.capture.parts.NUMBER_MAX": capture_number,
    "harness.scenario.writing.COMMENT_CHARS_MAX": comment_chars,
    "harness.reference_frontend.options.CONFIG_BYTES_MAX": config_bytes,
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
