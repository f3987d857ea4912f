"""A small tree that looks like vLLM's, and a process of its own to load it in."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import textwrap

import pytest

from harness.targets.vllm_py.child import child_environment

COORDINATOR = """
    import torch
    from vllm.config import ParallelConfig
    from vllm.logger import init_logger

    logger = init_logger(__name__)


    @torch.inference_mode()
    def decorated(config: ParallelConfig | None) -> "torch.Tensor":
        return config


    class DPCoordinatorProc:
        def run(self) -> int:
            return 7

        def use(self) -> object:
            return torch.zeros(3)
"""


@pytest.fixture
def tree(tmp_path):
    """A folder with one module; ``tree.checksums`` are right."""

    class Tree:
        folder = tmp_path
        member = "vllm/v1/engine/coordinator.py"

        @property
        def file(self):
            return self.folder / self.member

        @property
        def checksums(self):
            return {self.member: hashlib.sha256(self.file.read_bytes()).hexdigest()}

    made = Tree()
    made.file.parent.mkdir(parents=True)
    made.file.write_text(textwrap.dedent(COORDINATOR))
    return made


@pytest.fixture
def run_in_child():
    """Run code with ``Loaded`` in a process of its own; returns what it put into ``said``."""

    def run(code, folder, checksums):
        text = (
            "import json, sys\n"
            "from pathlib import Path\n"
            "from harness.targets.vllm_py.loader import ForeignClassError, Loaded\n"
            "from harness.targets.vllm_py.stubs import StubUsedError\n"
            "folder, checksums = json.load(sys.stdin)\n"
            "said = {}\n"
            "try:\n"
            "    loaded = Loaded(Path(folder), checksums)\n"
            f"{textwrap.indent(textwrap.dedent(code), '    ')}\n"
            "except (ForeignClassError, StubUsedError) as error:\n"
            "    said['error'] = f'{type(error).__name__}: {error}'\n"
            "json.dump(said, sys.stdout)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", text],
            input=json.dumps([str(folder), checksums]),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=child_environment(),
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
