"""Child process: plays many cases against vLLM's classes of one release.

Standard input takes one JSON object with the settings, standard output gives one back.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from client.protocol.profiles import profile_for
from harness.differential import coordinator
from harness.differential.breaks import BREAKS
from harness.differential.moves import Case, make_case
from harness.differential.oracle import Kit, OracleMeeting, OracleRank
from harness.differential.play import Play, Sides, shrunk
from harness.differential.sides import ModelMeeting, ModelRank, rules_for
from harness.targets.vllm_py.loader import Loaded
from mock_engines.lockstep.rules import rules_of


def sides_of(kit: Kit, release: str, broken: str | None) -> Sides:
    """Return what makes both sides; ``broken`` names a rule that the model gets wrong."""
    own = rules_of(profile_for(release))
    breaks = BREAKS[broken] if broken is not None else BREAKS["nothing"]

    def model(index: int, case: Case) -> ModelRank:
        return ModelRank(index, case, breaks.rules(rules_for(case, own)), breaks.rank)

    def oracle(index: int, case: Case, _meeting: Any) -> OracleRank:
        return OracleRank(kit, index, case, case.sync_interval)

    return Sides(model, oracle, ModelMeeting, OracleMeeting)


def compare(settings: dict[str, Any]) -> dict[str, Any]:
    """Play the cases; stop at the first difference, and shrink it."""
    loaded = Loaded(Path(settings["folder"]), settings["checksums"])
    if settings["part"] == "coordinator":
        return coordinator.compare(loaded, settings)
    kit = Kit(loaded)
    sides = sides_of(kit, settings["release"], settings["broken"])
    seen: Counter[str] = Counter()
    effects = played = 0
    found = None
    first, seed = settings["first"], settings["seed"]
    rules = rules_of(profile_for(settings["release"]))
    pauses = ["pause_scheduler", "pause_scheduler", "sleep"]
    pauses += ["pause_generation"] * (1 + rules.rejects_while_paused)
    for number in range(first, first + settings["sequences"]):
        case = make_case(seed, number, short_interval=rules.syncs_first_step, pauses=pauses)
        play = Play(case, sides, seen)
        difference = play.run(case.moves)
        effects += play.effects
        played += 1
        if difference is not None:
            smaller, difference = shrunk(case, sides)
            found = {"case": asdict(smaller), "moves": [repr(move) for move in smaller.moves]}
            found["difference"] = asdict(difference)
            break
    return {
        "proofs": [asdict(proof) for proof in kit.proofs],
        "sequences": played,
        "effects": effects,
        "seen": dict(sorted(seen.items())),
        "found": found,
    }


def main() -> int:
    """Entry."""
    out = os.dup(1)
    os.dup2(2, 1)
    answer = compare(json.load(sys.stdin))
    with os.fdopen(out, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
    return 0


if __name__ == "__main__":
    sys.exit(main())
