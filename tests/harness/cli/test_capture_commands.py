"""``capture``, ``diff`` and ``decode``: what they write, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.capture.file import read_file
from harness.cli.main import cli
from harness.targets.base import TargetError

FULL = Path("/dev/full")
STORY = "capture/03-leave"
WAVES = "capture/12-waves"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")

    def invoke(*arguments, stdin=None):
        return CliRunner().invoke(cli, list(arguments), input=stdin)

    return invoke


def captured(run, release, file, *stories):
    names = stories or (STORY, WAVES)
    done = run("capture", "--target", "sim", "--frontend", release, "-o", file, *names)
    assert done.exit_code == 0, done.output
    return done


# --- capture --------------------------------------------------------------------------------


def test_capture_writes_a_file_named_by_the_release_and_says_what_is_in_it(run, tmp_path):
    done = run("capture", "--target", "sim", "--frontend", "0.31.0", STORY)
    assert done.exit_code == 0
    capture = read_file(tmp_path / "0.31.0.capture")
    assert [(story.id, story.status) for story in capture.stories] == [(STORY, "played")]
    assert done.stdout.splitlines()[-1] == (
        f"sim 0.31.0: 1 story, {len(capture.stories[0].frames)} messages, in 0.31.0.capture"
    )


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_capture_that_finds_no_room_is_told_behind_what_was_played(run):
    done = run("capture", "--target", "sim", "--frontend", "0.31.0", STORY, "-o", str(FULL))
    assert done.exit_code == 3
    assert done.stdout.splitlines()[-1].endswith(" messages")
    assert done.stderr == "error: cannot write /dev/full: No space left on device\n"


def test_capture_to_standard_output_writes_nothing_else_there(run, tmp_path):
    done = run("capture", "--target", "sim", STORY, "-o", "-")
    (tmp_path / "out").write_text(done.stdout, encoding="utf-8")
    assert read_file(tmp_path / "out").version == "0.33.0"
    assert "in standard output" in done.stderr


def test_capture_tells_its_result_as_json(run):
    done = run("capture", "--target", "sim", STORY, "-o", "x.capture", "--json", "-")
    document = json.loads(done.stdout)
    (story,) = document["stories"]
    assert (story["story"], story["status"], document["exit"]) == (STORY, "played", 0)
    assert story["messages"] > 5


def test_capture_of_what_no_target_here_can_play_ends_with_4(run):
    done = run("capture", "--target", "sim", "capture/14-admin-answers", "-o", "x")
    assert done.exit_code == 4
    assert "op.http" in done.stdout


def test_capture_writes_what_there_is_when_a_story_breaks_and_ends_with_3(
    run, tmp_path, monkeypatch
):
    def broken(_spec, _target):
        msg = "it fell over"
        raise TargetError(msg)

    monkeypatch.setattr("harness.capture.take._events", broken)
    done = run("capture", "--target", "sim", STORY, "-o", "x")
    assert done.exit_code == 3
    assert "could not be captured on sim 0.33.0: it fell over" in " ".join(done.stdout.split())
    assert read_file(tmp_path / "x").stories[0].status == "failed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["capture", "--target", "sim", "--frontend", "0.1.0"], "unknown release '0.1.0'"),
        (["capture", "--target", "sim", "capture/3-leave"], "did you mean 'capture/03-leave'?"),
        (["capture", "--target", "sim", "no/such"], "no scenario, chapter, file or folder"),
        (["capture", "--target", "sim", "-o", "absent/x"], "there is no folder absent"),
        (["capture", "--target", "sim", "-o", "-", "--json", "-"], "both want standard output"),
        (["capture", "--target", "sim", "--frontend-arg", "x"], "--frontend-arg does not go with"),
        (["capture", "--frontend", "0.9"], "unknown frontend release '0.9'"),
        (["diff", "--target", "sim", "0.31.0", "0.1.0"], "unknown release '0.1.0'"),
        (["diff", "a.capture", "0.33.0"], "a.capture"),
        (["decode", "absent"], "cannot read absent: No such file or directory"),
        (["decode", "-", "--profile", "0.1.0"], "unknown release '0.1.0'"),
        (["decode", "-", "--as", "addd"], "did you mean 'add'?"),
    ],
)
def test_wrong_use_is_refused_with_2(run, arguments, words):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert words in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("engine", "1" * 5_000, "line 3: no JSON of a capture: a whole number has more than 4,300"),
        ("engine", "1" * 4_000, "expected a whole number from -1 to 65,535"),
        ("engine", "-3", "'engine' is -3; expected a whole number from -1 to 65,535"),
        ("n", "-5", "'n' is -5; expected a whole number from 0"),
        ("n", '0,"n":1', "key 'n' stands twice in one object"),
    ],
)
@pytest.mark.parametrize(
    "command", [("decode",), ("diff", "good"), ("record", "-o", "o", "--from")]
)
def test_number_that_no_capture_has_is_refused_with_its_line(run, command, key, text, words):
    captured(run, "0.33.0", "good")
    lines = Path("good").read_text("utf-8").splitlines(keepends=True)
    value = json.loads(lines[2])[key]
    assert f'"{key}":{value},' in lines[2]
    lines[2] = lines[2].replace(f'"{key}":{value},', f'"{key}":{text},')
    Path("bad").write_text("".join(lines), "utf-8")
    done = run(*command, "bad")
    assert done.exit_code == 2, done.output
    told = " ".join(done.stderr.split())
    assert words in told
    assert "bad: line 3: " in told
    assert not Path("o").exists()


# --- diff -----------------------------------------------------------------------------------


def test_diff_of_equal_captures_ends_with_0(run):
    captured(run, "0.33.0", "a")
    captured(run, "0.33.0", "b")
    done = run("diff", "a", "b")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "sim 0.33.0 -> sim 0.33.0: 2 stories played on both",
        "no difference",
    ]


def test_diff_of_two_releases_captures_them_now_and_ends_with_1(run):
    done = run("diff", "--target", "sim", "0.32.0", "0.33.0", "--story", WAVES)
    assert done.exit_code == 1
    assert "- START_DP_WAVE wave 0 exclude 0" in done.stdout
    assert len(done.stdout.splitlines()) < 40


def test_diff_holds_a_capture_beside_a_release_and_writes_json(run):
    captured(run, "0.31.0", "a")
    done = run("diff", "--target", "sim", "a", "0.33.0", "--story", WAVES, "--json", "-")
    document = json.loads(done.stdout)
    assert done.exit_code == document["exit"] == 1
    assert (document["a"]["version"], document["b"]["version"]) == ("0.31.0", "0.33.0")
    assert document["compared"] == document["changed"] == [WAVES]
    assert {change["message"] for change in document["fields"]} == {"outputs", "registration"}
    assert {change["socket"] for change in document["order"]} == {"coordinator-input"}


def test_diff_without_a_common_story_ends_with_4(run):
    captured(run, "0.33.0", "a", STORY)
    captured(run, "0.33.0", "b", WAVES)
    assert run("diff", "a", "b").exit_code == 4


def test_diff_refuses_a_capture_that_was_cut_off(run, tmp_path):
    captured(run, "0.33.0", "a")
    whole = (tmp_path / "a").read_text().splitlines()
    (tmp_path / "cut").write_text("\n".join(whole[:-1]))
    done = run("diff", "cut", "a")
    assert done.exit_code == 2
    assert "cut: it was cut off" in " ".join(done.stderr.split())


# --- decode ---------------------------------------------------------------------------------


def test_decode_explains_hexadecimal_lines_from_standard_input(run):
    done = run("decode", "-", stdin="02 920000\n01 91a161\n")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "message 1 (line 1): START_DP_WAVE, to-engine, 2 frames of 1, 3 bytes"
    assert "  1  wave                  int         0" in lines
    assert any(line.startswith("message 2 (line 2): ABORT") for line in lines)


def test_decode_of_a_message_that_nobody_takes_ends_with_1_and_says_where(run):
    done = run("decode", "-", "--json", "-", stdin="02 92c100")
    assert done.exit_code == 1
    (message,) = json.loads(done.stdout)["messages"]
    assert (message["kind"], message["taken_by"]) == ("start-dp-wave", [])
    assert [(r["frame"], r["offset"]) for r in message["refused_by"]] == [(1, 1)]


def test_decode_asks_one_release_and_takes_its_names(run):
    nine = "9900" + "90" + "c0" + "cb0000000000000000" + "c0" * 5
    done = run("decode", "-", "--profile", "0.31.0", stdin=nine)
    assert done.exit_code == 1
    assert "invalid length 9, expected 0 to 8 elements" in done.stdout
    done = run("decode", "-", "--profile", "0.33.0", stdin=nine)
    assert "weight_version" in done.stdout


def test_decode_reads_captures_and_raw_files_and_chooses_messages(run, tmp_path):
    captured(run, "0.33.0", "a")
    done = run("decode", "a", "--message", "2", "--json", "-")
    (message,) = json.loads(done.stdout)["messages"]
    assert (message["number"], message["kind"]) == (2, "hello")
    assert run("decode", "a", "--message", "9999").exit_code == 2
    (tmp_path / "raw").write_bytes(bytes.fromhex("93c000c2"))
    assert "publish of the external coordinator" in run("decode", "raw").stdout
    (tmp_path / "text").write_bytes(b"READY")
    assert run("decode", "text").exit_code == 2
    assert "READY gate" in run("decode", "text", "--binary").stdout


def test_decode_takes_the_kind_that_it_is_told(run):
    done = run("decode", "-", "--as", "first-request", stdin="9201c0")
    assert done.exit_code == 1
    assert "first-request notice" in done.stdout
    assert "expected integer" in done.stdout
