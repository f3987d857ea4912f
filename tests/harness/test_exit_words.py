"""How a process ended, in words."""

from __future__ import annotations

import pytest

from harness.exit_words import code_and_name, ended, exit_words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-9, "ended by SIGKILL"),
        (-11, "ended by SIGSEGV"),
        (-99, "ended by signal 99"),
        (101, "ended with exit code 101 (a Rust program says so of a panic)"),
        (139, "ended with exit code 139 (a shell says so of SIGSEGV)"),
        (128, "ended with exit code 128"),
        (255, "ended with exit code 255"),
    ],
)
def test_an_exit_code_is_said_with_the_signal_by_name(code, words):
    assert ended(code) == words
    assert words.endswith(exit_words(code))


def test_a_code_as_a_scenario_writes_it_has_its_signal_behind_it():
    assert [code_and_name(code) for code in (0, -9, None)] == ["0", "-9 (SIGKILL)", "None"]
