"""Generates the few JSON files that the frontend takes for a model; there are no weights.

The tokenizer is a byte-level BPE without merges, whose token id *is* the byte: 97 is ``a``. One
special token follows (256). An expert count above zero makes the model MoE; only then the
frontend has waves and an in-process coordinator.

Source: vLLM ``rust/src/text`` and ``rust/src/chat`` read ``config.json``, ``tokenizer.json`` and
``tokenizer_config.json``; which keys matter was measured on the binaries.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from harness.targets.vllm_rs import cache

VOCABULARY = 257
"""256 byte tokens and one special token."""
END_TOKEN = "<|end|>"
END_TOKEN_ID = 256
EXPERTS = 8
LORA_FOLDER = "lora"
_CHAT_TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
_LAYOUT = 1
_TEMPORARY = ".model-"
"""Raised when the content changes, so that an older cache is not used."""


def byte_characters() -> list[str]:
    """Return the printable character that stands for each byte in a byte-level vocabulary.

    Printable bytes stand for themselves; the others follow from U+0100 on, in byte order
    (GPT-2's convention, which ``tokenizers`` calls ByteLevel).
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    characters, spare = [], 256
    for byte in range(256):
        if byte in printable:
            characters.append(chr(byte))
        else:
            characters.append(chr(spare))
            spare += 1
    return characters


def model_files(*, moe: bool) -> dict[str, dict[str, Any]]:
    """Return file name → content of a model folder."""
    config: dict[str, Any] = {"vocab_size": VOCABULARY}
    if moe:
        config["num_experts"] = EXPERTS
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    vocabulary = {character: byte for byte, character in enumerate(byte_characters())}
    vocabulary[END_TOKEN] = END_TOKEN_ID
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": END_TOKEN_ID,
                "content": END_TOKEN,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }
    return {
        "config.json": config,
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"chat_template": _CHAT_TEMPLATE},
    }


def write_model_folder(folder: Path, *, moe: bool) -> None:
    """Write the files of a model, and a folder that LoRA adapters may be loaded from."""
    (folder / LORA_FOLDER).mkdir(parents=True, exist_ok=True)
    for name, content in model_files(moe=moe).items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def model_folder(*, moe: bool) -> Path:
    """Return a model folder in the cache, made on first use; it is never written to again.

    Raises:
        TargetError: the cache folder cannot be used.
    """
    folder = cache.cache_root() / "models" / f"{'moe' if moe else 'dense'}-{_LAYOUT}"
    with cache.in_use():
        if not (folder / "config.json").is_file():
            _make(folder, moe=moe)
    return folder


def _make(folder: Path, *, moe: bool) -> None:
    parent = folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    with cache.held(parent / ".lock"):
        if (folder / "config.json").is_file():
            return  # another process was first; its folder has the same content
        for left in parent.glob(f"{_TEMPORARY}*"):
            # We hold the lock, so it belongs to a process that was killed.
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=parent) as temporary:
            fresh = Path(temporary) / "model"
            write_model_folder(fresh, moe=moe)
            os.rename(fresh, folder)


def text_of(tokens: tuple[int, ...] | list[int]) -> str:
    """Return the text of byte tokens, as the frontend would show it."""
    return bytes(token for token in tokens if token < END_TOKEN_ID).decode("utf-8", "replace")
