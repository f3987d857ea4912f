"""Runs the shell steps of a composite action as a runner of GitHub does, in a folder of a test."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)
SHIM_PYTHON = """\
#!/bin/sh
# Stands for the interpreter of the runner: environments are made of shims, and pip records.
if [ "$1 $2" = "-m venv" ]; then
  mkdir -p "$3/bin"
  cp "$0" "$3/bin/python"
  printf '#!/bin/sh\\nexec "%s" -m harness "$@"\\n' "$REAL_PYTHON" > "$3/bin/wavecheck"
  chmod +x "$3/bin/wavecheck"
elif [ "$1 $2" = "-m pip" ]; then
  printf '%s\\n' "$@" >> "$RUNNER_TEMP/pip.txt"
else
  exec "$REAL_PYTHON" "$@"
fi
"""


@dataclass
class Step:
    """What one shell step did."""

    name: str
    code: int
    output: str


@dataclass
class Job:
    """One use of an action.

    Attributes:
        action: the document.
        root: of the action, which ``github.action_path`` names.
        folder: workspace, temp folder and files of the runner are below it.
        uses: third-party steps that would run, by the name of their action.
    """

    action: Mapping[str, Any]
    root: Path
    folder: Path
    inputs: dict[str, str]
    steps: list[Step] = field(default_factory=list)
    uses: list[str] = field(default_factory=list)
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    failed: bool = False

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def summary(self) -> str:
        file = self.folder / "summary.md"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    @property
    def code(self) -> int:
        """Exit code of the last shell step."""
        return self.steps[-1].code

    def step(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)

    def output(self, name: str) -> str:
        """An output of the action."""
        return self._filled(self.action["outputs"][name]["value"])

    def run(self) -> Job:
        """Run all of it."""
        temp = self.folder / "temp"
        for made in (self.workspace, temp, self.folder / "bin"):
            made.mkdir(parents=True, exist_ok=True)
        shim = self.folder / "bin" / "python"
        shim.write_text(SHIM_PYTHON, encoding="utf-8")
        shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
        for number, step in enumerate(self.action["runs"]["steps"]):
            if not self._applies(step.get("if")):
                continue
            if "uses" in step:
                self.uses.append(step["uses"].partition("@")[0])
            else:
                self._shell(number, step, temp)
        return self

    def _shell(self, number: int, step: Mapping[str, Any], temp: Path) -> None:
        assert step["shell"] == "bash"
        script = temp / f"step-{number}.sh"
        script.write_text(step["run"], encoding="utf-8")
        told = temp / f"output-{number}"
        told.touch()
        env = {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(temp),
            "LANG": "C.UTF-8",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_OUTPUT": str(told),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "RUNNER_TEMP": str(temp),
            "REAL_PYTHON": sys.executable,
            "PYTHONPATH": str(self.root),
            **{name: self._filled(value) for name, value in step.get("env", {}).items()},
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
            cwd=self.workspace,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        text = done.stdout.decode("utf-8", "replace")
        self.steps.append(Step(step.get("name", ""), done.returncode, text))
        self.failed |= done.returncode != 0
        pairs = (line.partition("=") for line in told.read_text(encoding="utf-8").splitlines())
        self.outputs[step.get("id", "")] = {name: value for name, _, value in pairs}

    def _filled(self, text: str) -> str:
        return EXPRESSION.sub(lambda match: self._value(match[1]), str(text))

    def _value(self, expression: str) -> str:
        words = expression.split(".")
        match words:
            case ["inputs", name]:
                return self.inputs.get(name, str(self.action["inputs"][name]["default"]))
            case ["steps", step, "outputs", name]:
                return self.outputs.get(step, {}).get(name, "")
            case ["github", "action_path"]:
                return str(self.root)
        msg = f"this runner does not know {expression!r}"
        raise AssertionError(msg)

    def _applies(self, condition: str | None) -> bool:
        if condition is None:
            return not self.failed
        found = EXPRESSION.fullmatch(condition.strip())
        text = found[1] if found else condition
        always = "cancelled()" in text
        terms = [term.strip() for term in text.split("&&")]
        return (always or not self.failed) and all(self._holds(term) for term in terms)

    def _holds(self, term: str) -> bool:
        if term == "!cancelled()":
            return True
        found = re.fullmatch(r"([\w.-]+) (==|!=) '([^']*)'", term)
        assert found is not None, term
        equal = self._value(found[1]) == found[3]
        return equal if found[2] == "==" else not equal
