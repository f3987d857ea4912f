"""A failure is found, saved and played again: reproduced, gone, or diverged and where."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.replay_cmd import _message
from harness.failure import FailureFileError, read_failure
from harness.replay import TRIALS_REAL, ReplayKind, replay
from harness.runner import RunOptions, run_scenario
from harness.scenario.problems import ScenarioFileError
from tests.support.stories import load

ROOT = Path(__file__).parents[2]
TRUNCATED = """
steps:
  - call: {id: a, rank: 65536}
  - utility: {id: u, method: is_sleeping}
  - finish: [a, u]
"""
WRONG_EXPECTATION = """
steps:
  - call: {id: a, rank: 1}
  - expect: {count: {event: joined, equals: 3}}
  - finish: a
  - expect: {op: a, engine: 0}
"""


def failed(tmp_path, story, **options):
    """Run a story that is violated; return its failure file and its result."""
    result = run_scenario(load(story, "stories/bad"), RunOptions(out=tmp_path / "out", **options))
    assert result.status == "violated", result
    return Path(result.failure_file), result


@pytest.fixture
def truncated(tmp_path):
    """A failure of a mutant, under random choices."""
    options = {"mutant": "rank-truncated", "strategy": "random", "seed": 4}
    path, _ = failed(tmp_path, TRUNCATED, **options)
    return path


def edit(path, **changes):
    """Write the file anew with other fields; a callable gets the old value."""
    document = json.loads(path.read_text(encoding="utf-8"))
    for name, value in changes.items():
        document[name] = value(document[name]) if callable(value) else value
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def other_choice(tape, position):
    """The tape with another answer to one question; no labels, so nothing else is compared."""
    pairs = []
    for word in tape["choices"].split():
        pair, _, times = word.partition("*")
        pairs += [tuple(map(int, pair.split("/")))] * int(times or 1)
    choice, options = pairs[position]
    pairs[position] = (choice + 1) % options, options
    return {"format": 1, "choices": " ".join(f"{c}/{n}" for c, n in pairs)}


# --- reproduced -----------------------------------------------------------------------------


def test_violated_invariant_is_reproduced_by_the_same_events(truncated):
    outcome = replay(truncated)
    assert outcome.kind is ReplayKind.REPRODUCED
    assert outcome.text == (
        "routing.explicit-rank is violated again, by the same events (digest equal)"
    )
    assert outcome.digest_matches is True
    failure = read_failure(truncated)
    assert outcome.failure == failure
    assert outcome.attempt.digest == failure.digest
    assert outcome.witness_lines == tuple(failure.events[n] for n in failure.witness)
    assert outcome.attempt.event_lines(tuple(range(10_000))) == tuple(failure.events)


@pytest.mark.parametrize("seed", range(4))
def test_failed_expectation_is_reproduced_with_its_witness(tmp_path, seed):
    path, result = failed(tmp_path, WRONG_EXPECTATION, strategy="random", seed=seed)
    failure = read_failure(path)
    assert failure.violated == "expectation at step 1"
    outcome = replay(path)
    assert (outcome.kind, outcome.digest_matches) == (ReplayKind.REPRODUCED, True)
    assert len(outcome.witness_lines) == 2
    assert outcome.witness_lines == tuple(failure.events[n] for n in failure.witness)
    assert set(outcome.witness_lines) <= set(result.witness_lines)


def test_reproduction_by_other_events_says_so(truncated):
    outcome = replay(edit(truncated, digest="00" * 32))
    assert outcome.kind is ReplayKind.REPRODUCED
    assert outcome.digest_matches is False
    assert outcome.text == (
        "routing.explicit-rank is violated again; the events differ from the recorded run "
        "(the code or the version changed)"
    )


def test_tape_without_labels_is_reproduced_too(truncated):
    bare = edit(truncated, tape=lambda tape: {"format": 1, "choices": tape["choices"]})
    assert replay(bare).digest_matches is True


def test_replay_takes_nothing_from_its_surroundings(truncated, tmp_path, monkeypatch):
    moved = tmp_path / "elsewhere" / "x.json"
    moved.parent.mkdir()
    truncated.replace(moved)
    monkeypatch.chdir(moved.parent)
    assert replay(Path("x.json")).digest_matches is True


def command(path, *words, hash_seed="0"):
    """``wavecheck replay`` in a new process."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "harness", "replay", str(path), "--json", "-", *words],
        env=environment, capture_output=True, text=True, timeout=60, check=False, cwd=path.parent,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "77"])
def test_new_process_reproduces_the_digest_and_ends_with_1(truncated, hash_seed):
    done = command(truncated, hash_seed=hash_seed)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["outcome"], told["exit"]) == ("reproduced", 1)
    assert told["digest_matches"] is True
    assert told["digest"] == read_failure(truncated).digest
    assert told["violated"] == "routing.explicit-rank"
    assert "violated[routing.explicit-rank]" in done.stderr


# --- gone -----------------------------------------------------------------------------------


def test_failure_whose_cause_was_fixed_is_gone(tmp_path):
    """The fault changes one value and no message, so the tape still fits."""
    story = """
engines:
  - {engine: 1, rules: [{on: utility, method: is_sleeping, do: {reply: true}}]}
steps:
  - utility: {id: u, method: is_sleeping}
  - finish: u
"""
    path, _ = failed(tmp_path, story, mutant="first-engine-only-is-sleeping")
    assert replay(path).kind is ReplayKind.REPRODUCED
    outcome = replay(edit(path, mutant=None))
    assert outcome.kind is ReplayKind.GONE
    assert outcome.text == "utility.aggregation is no longer violated"
    assert outcome.witness_lines == ()
    assert outcome.digest_matches is False
    done = command(path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["outcome"] == "gone"


def test_expectation_that_holds_now_is_gone(tmp_path):
    path, _ = failed(tmp_path, WRONG_EXPECTATION)
    fixed = edit(path, scenario_text=lambda text: text.replace("equals: 3", "equals: 2"))
    assert replay(fixed).kind is ReplayKind.GONE


def test_another_failed_expectation_does_not_count_as_the_recorded_one(tmp_path):
    path, _ = failed(tmp_path, WRONG_EXPECTATION)
    outcome = replay(edit(path, violated="expectation at step 3"))
    assert outcome.kind is ReplayKind.REPRODUCED
    fixed = edit(path, scenario_text=lambda text: text.replace("engine: 0}", "engine: 1}"))
    assert replay(fixed).kind is ReplayKind.GONE


def test_violation_of_another_invariant_does_not_count_as_the_recorded_one(truncated):
    outcome = replay(edit(truncated, violated="wave.never-rewinds"))
    assert (outcome.kind, outcome.digest_matches) == (ReplayKind.GONE, True)
    assert outcome.text == "wave.never-rewinds is no longer violated"


# --- diverged -------------------------------------------------------------------------------


def test_tape_with_other_options_diverges_at_that_choice(truncated):
    tape = json.loads(truncated.read_text())["tape"]
    position = 5
    row = tape["labels"][position]
    names = [tape["names"][index] for index in row]

    def renamed(old):
        return {
            **old,
            "names": [*old["names"], "somebody else"],
            "labels": [
                [len(old["names"]), *row[1:]] if n == position else each
                for n, each in enumerate(old["labels"])
            ],
        }

    outcome = replay(edit(truncated, tape=renamed))
    assert outcome.kind is ReplayKind.DIVERGED
    assert outcome.attempt is None
    count = len(names)
    assert outcome.text == (
        f"the run differs from the tape at choice {position}:"
        f"\n  expected: {count} options: {', '.join(['somebody else', *names[1:]])}"
        f"\n  seen:     {count} options: {', '.join(names)}"
    )


@pytest.mark.slow
def test_diverged_replay_ends_with_4_and_says_where(truncated):
    def cut(tape):
        first = tape["choices"].split()[0].partition("*")[0]
        return {**tape, "choices": first, "labels": tape["labels"][:1]}

    edit(truncated, tape=cut)
    done = command(truncated)
    assert done.returncode == 4
    told = json.loads(done.stdout)
    assert (told["outcome"], told["exit"], told["digest"]) == ("diverged", 4, None)
    assert "the run differs from the tape at choice 1:" in told["text"]
    assert "expected: the end of the tape" in told["text"]
    assert "differs from the tape at choice 1" in done.stderr


def test_tape_that_goes_on_after_the_run_diverges(truncated):
    longer = edit(
        truncated,
        tape=lambda tape: {"format": 1, "choices": tape["choices"] + " 0/2"},
    )
    outcome = replay(longer)
    assert outcome.kind is ReplayKind.DIVERGED
    assert "expected: 2 options\n" in outcome.text
    assert outcome.text.endswith("seen:     0 options")


def test_other_answer_on_the_tape_is_never_taken_for_the_recorded_run(truncated):
    tape = read_failure(truncated).tape
    for position in (0, 7, 20):
        outcome = replay(edit(truncated, tape=other_choice(tape, position)))
        assert outcome.kind is ReplayKind.DIVERGED or outcome.digest_matches is False


def test_divergence_leaves_nothing_behind(truncated):
    edit(truncated, tape={"format": 1, "choices": "0/2*40"})
    for _ in range(2):
        assert replay(truncated).kind is ReplayKind.DIVERGED
        gc.collect()  # what was never awaited would be told now, and is an error here


# --- refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"target": "simm"}, "there is no target 'simm'; targets are sim, zmq, vllm-rs"),
        ({"profile": "0.34.0"}, "0.34.0"),
        ({"profile": ""}, "unknown release"),
        ({"mutant": "nope"}, "unknown mutant 'nope' (wavecheck list mutants"),
        ({"tape": None}, "a tape is a JSON object, not NoneType"),
        ({"tape": {}}, "tape format None cannot be read, only 1"),
        ({"tape": {"format": 1, "choices": "x"}}, "word 0 of the choices is 'x'"),
        ({"tape": {"format": 1, "choices": "2/2"}}, "choice 0 is 2 of 2 options"),
        ({"tape": {"format": 1, "choices": "0/2*999999999"}}, "longer than 1,000,000"),
        ({"tape": {"format": 1, "choices": "0/2*" + "9" * 5000}}, "word 0 of the choices is"),
        ({"tape": {"format": 1, "choices": "0/2", "names": ["a"], "labels": [[0, 1]]}},
         "labels of choice 0 are not indices below 1"),
        ({"violated": "wave.never-rewindz"},
         "'wave.never-rewindz' is neither an invariant of this version nor a step of the "
         "scenario in the file"),
        ({"violated": "expectation at step 3"}, "'expectation at step 3' is neither"),
        ({"violated": ""}, "'' is neither an invariant"),
    ],
)  # fmt: skip
def test_file_that_cannot_be_replayed_is_refused_with_the_reason(truncated, changes, text):
    with pytest.raises(FailureFileError) as caught:
        replay(edit(truncated, **changes))
    assert str(caught.value).startswith(f"{truncated}: ")
    assert text.lower() in str(caught.value).lower()


def test_scenario_that_is_not_valid_any_more_is_refused_with_its_place(truncated):
    edit(truncated, scenario_text=lambda text: text.replace("call:", "coll:"))
    with pytest.raises(ScenarioFileError, match="coll"):
        replay(truncated)
    done = command(truncated)
    assert done.returncode == 2
    assert "unknown key 'coll'" in done.stderr


# --- a target without a tape ----------------------------------------------------------------


def counted_plays(monkeypatch):
    """A list that grows with each run of a replay."""
    tries = []
    real = sys.modules["harness.replay"].play
    monkeypatch.setattr("harness.replay.play", lambda *a: tries.append(1) or real(*a))
    return tries


@pytest.mark.zmq
@pytest.mark.slow
def test_failure_over_real_sockets_is_looked_for_until_it_is_found(tmp_path, monkeypatch):
    tries = counted_plays(monkeypatch)
    path, result = failed(tmp_path, TRUNCATED, target="zmq", mutant="rank-truncated")
    failure = read_failure(path)
    assert (failure.tape, failure.digest, result.digest) == (None, "", None)
    outcome = replay(path)
    assert outcome.kind is ReplayKind.REPRODUCED
    assert outcome.text == "routing.explicit-rank is violated again"
    assert (outcome.digest_matches, len(outcome.witness_lines)) == (None, len(failure.witness))
    assert len(tries) == 1


@pytest.mark.zmq
@pytest.mark.slow
def test_failure_over_real_sockets_is_gone_after_some_trials(tmp_path, monkeypatch):
    path, _ = failed(tmp_path, TRUNCATED, target="zmq", mutant="rank-truncated")
    edit(path, mutant=None)
    tries = counted_plays(monkeypatch)
    outcome = replay(path)
    assert (outcome.kind, len(tries)) == (ReplayKind.GONE, TRIALS_REAL)
    assert outcome.text == "routing.explicit-rank is no longer violated"


def test_message_of_a_replay_is_about_the_recorded_step(tmp_path):
    story = (
        "steps:\n  - call: {id: a}\n  - finish: a\n  - expect: {op: a, outcome: failed}\n"
        "  - expect: {op: a, outcome: cancelled}\n"
    )
    path, _ = failed(tmp_path, story)
    first = read_failure(path).violated
    messages = [
        _message(replay(edit(path, violated=f"expectation at step {n}")), path) for n in (2, 3)
    ]
    assert first == "expectation at step 2"
    assert [("failed" in m.expected, "cancelled" in m.expected) for m in messages] == [
        (True, False),
        (False, True),
    ]
