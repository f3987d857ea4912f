"""The page on adapters says what is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

from harness.targets.adapter import conversation, frontend, greeting, lines, process
from harness.targets.adapter.agreed import LINE_BYTES_MAX, VERSIONS
from harness.targets.adapter.parsing import keyword, parse

PAGE = (Path(__file__).parents[4] / "docs" / "adapter.md").read_text(encoding="utf-8")
TRANSCRIPT = PAGE.partition("\n## A transcript\n")[2].partition("```\n")[2].partition("```")[0]
SHORTENED = "…"


def test_lines_of_the_transcript_are_lines_of_the_protocol() -> None:
    checked = 0
    for text in TRANSCRIPT.replace("\n   ", "").splitlines():
        way, _, line = text.partition(" ")
        if SHORTENED in line:
            continue
        checked += 1
        if way == "<":
            parse(line.encode())
        else:
            command = json.loads(line)
            models = {keyword(model): model for model in lines.COMMANDS}
            assert set(command) == set(models[command["do"]].model_fields)
    assert checked > 20


def test_numbers_on_the_page_are_those_of_the_code() -> None:
    flat = " ".join(PAGE.split())
    for said in (
        f"at most {LINE_BYTES_MAX >> 20} MiB",
        f"{greeting.HELLO_S:g} s are allowed from the start of the process",
        f"It gets {process.END_S:g} s, then its whole process group is killed",
        f"it says nothing for {conversation.SILENCE_S:g} s while somebody waits",
        f"and {conversation.ANSWER_S:g} s to answer",
        f"are not answered in {conversation.ANSWER_S:g} s, `stop` in {frontend.STOP_S:g} s",
        f"The version is one number, now {VERSIONS[-1]}.",
    ):
        assert said in flat
    assert process.LINES_MAX == 1_000_000
    assert "more than a million lines in one run" in flat


def test_keys_of_hello_are_all_explained() -> None:
    table = PAGE.partition("| key of `hello` | means |")[2].partition("\n\n")[0]
    explained = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE)))
    )
    assert explained == set(lines.Greeting.model_fields) - {"say"}
