"""The reference of what surrounds a run: environment variables, pytest's options and fixtures."""

from __future__ import annotations

import inspect

from harness.docs.markdown import prose, table
from harness.pytest_plugin import plugin
from harness.pytest_plugin.options import OPTIONS, PREFIX

VARIABLES = {
    "WAVECHECK_CACHE": "Folder of fetched binaries and of what was read from wheels. Default: "
    "`wavecheck` in the cache folder of the platform, such as `~/.cache`.",
    "WAVECHECK_FRONTEND_DIR": "Folder that already holds unpacked wheels as `RELEASE/vllm/vllm-rs`; "
    "what is there is not fetched.",
    "WAVECHECK_ADAPTER_TRANSCRIPT": "File to which all lines between harness and adapter are "
    "appended.",
    "WAVECHECK_TRACEBACK": "Set to anything: an error of the tool itself shows where it comes from.",
    "NO_COLOR": "Set to anything: no colour, bold or dim text in a terminal.",
    "TERM": "`dumb`: no live progress in a terminal.",
    "COLUMNS": "Width of the text, where there is no terminal to ask.",
    "GITHUB_ACTIONS": "`true`: `--annotations auto` writes annotations. GitHub Actions sets it.",
    "GITHUB_WORKSPACE": "Root of the repository, relative to which annotations name files. GitHub "
    "Actions sets it; default: the current folder.",
    "GITHUB_STEP_SUMMARY": "File that `wavecheck report --step-summary` adds to.",
    "HYPOTHESIS_STORAGE_DIRECTORY": "Where Hypothesis keeps what it learns in `wavecheck explore`. "
    "Default: below the cache.",
    "GRPC_VERBOSITY": "Notes of the gRPC library on standard error. Default: `ERROR`.",
    "PYTHONPATH": "Passed on to every process that is started, behind the place of wavecheck itself.",
}
"""What a user may set, for ``wavecheck`` and for pytest."""

SERVED = {
    "VLLM_SERVER_DEV_MODE": "`1`: the admin routes are there.",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "`1`: the routes for LoRA adapters are there.",
    "VLLM_RUNTIME_LORA_ALLOWED_PATH_PREFIXES": "Folders below which adapters may lie.",
    "VLLM_ENGINE_READY_TIMEOUT_S": "How long engines may take to get ready, in seconds.",
    "RUST_LOG": "Which lines are logged.",
}
"""What ``wavecheck frontend serve`` heeds, as the real frontend does."""

OURS = {
    "WAVECHECK_FAMILY": "Mark by which processes of a frontend's family are known. Set by us.",
    "WAVECHECK_COMPLETE": "How click asks for the completion script. Set by `wavecheck completion`.",
    "VLLM_RPC_BASE_PATH": "Where vLLM's Python parts open their sockets. Set by us, in their process.",
}
"""What is set for other processes; nobody needs to."""


def variables() -> str:
    """What may be set."""
    return _named(VARIABLES)


def served_variables() -> str:
    """What our own frontend heeds."""
    return _named(SERVED)


def own_variables() -> str:
    """What is set by us."""
    return _named(OURS)


def _named(found: dict[str, str]) -> str:
    return table(("variable", "does"), ((f"`{name}`", words) for name, words in found.items()))


def pytest_options() -> str:
    """Options that the plugin adds to pytest."""
    return table(
        ("option", "value", "meaning"),
        (
            (
                f"`--{PREFIX}-{option.name}`",
                (f"`{option.metavar}`" if option.metavar else "")
                + ("; several times" if option.repeated else ""),
                prose(option.help),
            )
            for option in OPTIONS
        ),
    )


def fixtures() -> dict[str, str]:
    """Every fixture of the plugin, with its docstring."""
    found = {}
    for name, member in vars(plugin).items():
        # Up to pytest 8.3 a fixture is a function with a mark, later an object that holds it.
        held = getattr(member, "_fixture_function", None)
        marked = hasattr(member, "_pytestfixturefunction") or hasattr(
            member, "_fixture_function_marker"
        )
        if marked:
            found[name] = inspect.cleandoc((held or member).__doc__ or "")
    return found


def pytest_fixtures() -> str:
    """Fixtures of the plugin."""
    return table(
        ("fixture", "is"), ((f"`{name}`", prose(text)) for name, text in fixtures().items())
    )
