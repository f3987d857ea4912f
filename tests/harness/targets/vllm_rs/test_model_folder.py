"""The generated model folders."""

from __future__ import annotations

import json

import pytest

from harness.targets.vllm_rs.model_folder import (
    END_TOKEN_ID,
    LORA_FOLDER,
    byte_characters,
    model_folder,
    text_of,
    write_model_folder,
)


def test_every_byte_has_its_own_character_and_letters_stand_for_themselves():
    characters = byte_characters()
    assert len(set(characters)) == 256
    assert "".join(characters[97:123]) == "abcdefghijklmnopqrstuvwxyz"
    assert characters[0] == "\u0100"
    assert characters[ord(" ")] == "\u0120"


def test_token_ids_are_bytes(tmp_path):
    write_model_folder(tmp_path, moe=False)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    assert vocabulary["a"] == 97
    assert sorted(vocabulary.values()) == list(range(257))
    assert text_of([104, 105, END_TOKEN_ID]) == "hi"


@pytest.mark.parametrize("moe", [False, True])
def test_only_a_moe_model_has_experts(tmp_path, moe):
    write_model_folder(tmp_path, moe=moe)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert ("num_experts" in config) is moe
    assert config["vocab_size"] == 257
    assert (tmp_path / LORA_FOLDER).is_dir()


def test_a_folder_is_made_once_and_leaves_nothing_else_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("WAVECHECK_CACHE", str(tmp_path))
    first = model_folder(moe=True)
    before = (first / "config.json").stat().st_mtime_ns
    assert model_folder(moe=True) == first
    assert (first / "config.json").stat().st_mtime_ns == before
    assert model_folder(moe=False) != first
    assert len(list((tmp_path / "models").iterdir())) == 2


def test_what_a_killed_process_left_half_made_goes_when_the_folder_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("WAVECHECK_CACHE", str(tmp_path))
    half = tmp_path / "models" / ".model-x1y2" / "model"
    half.mkdir(parents=True)
    (half / "config.json").write_text("{")
    folder = model_folder(moe=True)
    assert list(folder.parent.iterdir()) == [folder]
