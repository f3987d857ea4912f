"""A bill of materials (CycloneDX) of what people install who use the harness."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def bill(names: Collection[str]) -> dict[str, Any]:
    """Ask cyclonedx-py for the whole environment, and keep these distributions.

    Raises:
        RuntimeError: some are not in its answer.
    """
    command = [
        *(
            sys.executable,
            "-m",
            "cyclonedx_py",
            "environment",
            "--pyproject",
            str(ROOT / "pyproject.toml"),
        ),
        *("--output-reproducible", "--output-format", "JSON", sys.executable),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return only(json.loads(done.stdout), names)


def only(whole: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The same bill without the components of other names, and without what refers to them."""
    kept = [each for each in whole["components"] if canonicalize_name(each["name"]) in names]
    if missing := sorted(set(names) - {canonicalize_name(each["name"]) for each in kept}):
        msg = f"cyclonedx-py says nothing of {', '.join(missing)}"
        raise RuntimeError(msg)
    refs = {each["bom-ref"] for each in kept} | {whole["metadata"]["component"]["bom-ref"]}
    links = [
        {**link, "dependsOn": [ref for ref in link.get("dependsOn", ()) if ref in refs]}
        for link in whole["dependencies"]
        if link["ref"] in refs
    ]
    return {**whole, "components": kept, "dependencies": links}
