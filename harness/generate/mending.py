"""From a draft to a scenario: names are put in, what cannot be is left out, the end is added.

Nothing here knows single fields: whatever the scenario's own checks find wrong is left out, step by
step and rule by rule, so that a new field or a new check needs no change. What is added is written
down as rules, each with its reason:

- each gate that something waits at is opened at the end, so that all work can end;
- the caller of work that may never end (its engine drops it, hangs for ever, vanishes, sleeps) leaves,
  so that liveness is judged for all that is left;
- a step waits only for what is sure to come: else the story, not the frontend, would be at fault;
- an action that waits, or that an engine which may be stalled is told, is carried out in the background,
  since nobody would open its gate;
- nothing fences or waits while a send is held or an engine is stalled;
- only a frontend that runs the handshake itself meets engines that join in odd ways: a bootstrapped
  one waits for them for ever;
- of two frontends neither is shut down, nor gets bytes that end it alone: the health of a run is that
  of both;
- an engine returns only where it is sure to be dead, and where its return can be fenced;
- nobody waits for generations once engines were told to pause, and nobody asks a client that may have
  failed, or was shut down, for aborts: such a step could not be carried out;
- an engine is told only what it can do: one that is dead nothing, one without a coordinator no waves,
  and out of the blue nothing that needs a message;
- engines that step together are a story of its own (``together``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.generate import together
from harness.generate.actions import (
    answers,
    ends_request,
    is_for_coordinator,
    is_plain,
    makes_unsure,
    may_break,
    may_swallow,
    odd_join,
    waits,
)
from harness.generate.drafts import Can, Draft, Phrase
from harness.generate.fields import Data
from harness.generate.names import Names, NothingThereError
from harness.generate.parts import methods_of, ranks_of, topology_of
from harness.generate.refs import Ref
from harness.generate.utilities import PAUSING
from harness.generate.valid import valid
from harness.scenario.model import Scenario

TITLE = "A generated scenario"
PROMISE = "Every promise of the protocol is kept in a story that nobody thought of."
REFERENCE = "https://docs.vllm.ai/en/latest/serving/data_parallel_deployment.html"
READY_S = 2.0
"""Seconds that a startup gets in which somebody stays away."""


def scenario_of(draft: Draft, can: Can) -> tuple[Scenario, dict[str, Any]] | None:
    """A valid scenario, as a model and as plain data; ``None``: nothing is left of the draft."""
    data = _Mender(draft, can).data()
    return valid(data, can)


class _Mender:
    def __init__(self, draft: Draft, can: Can) -> None:
        self._draft = draft
        self._can = can
        self._topology = topology_of(draft.topology, can)
        self._together = self._topology.get("waves") == together.LOCKSTEP
        self._leaving = not self._together or together.leaving_is_safe(can.release)
        self._profiles = together.profiles(can.release) if self._together else draft.profiles
        self._ranks = ranks_of(self._topology)
        self._names = Names(
            ranks=self._ranks,
            frontends=self._topology.get("frontends", 1),
            external=self._topology.get("coordinator") == "external",
            methods=methods_of(draft),
            every_call=sum((1 + p.twice + p.again) * ("call" in p.step) for p in draft.story),
        )
        self._steps: list[dict[str, Data]] = []
        self._held: dict[str, str] = {}
        """Kinds of frames that a link step holds, by gate."""
        self._dead: set[int] = set()
        self._over = False
        """Whether the client may have failed, or was shut down."""
        self._runs = True
        """Whether the external coordinator runs."""
        self._paused = False
        """Whether engines may have stopped serving, or never end what they serve."""
        self._stalls = False
        """Whether an engine may be stalled."""
        self._quiet = False
        """Whether engines or links do what makes any further wait unsure."""

    def data(self) -> dict[str, Any]:
        """The whole scenario, not yet checked."""
        names = self._names
        engines = list(self._engines())
        # A rule that opens a gate does so when its message comes, if ever.
        names.opened.clear()
        for entry in engines:
            if self._together:
                kept = [r for r in entry["rules"] if not together.concerns_moves(r)]
                entry["rules"] = kept
                entry.pop("join", None)
            for rule in entry["rules"]:
                rule["do"] = self._possible(rule["do"], rule["on"])
            entry["rules"] = [rule for rule in entry["rules"] if rule["do"]]
        if self._topology.get("transport") == "bootstrapped":
            for entry in engines:
                if odd_join(entry.get("join", {})):
                    del entry["join"]
            self._topology.pop("config", None)
        engines = [entry for entry in engines if entry["rules"] or entry.get("join")]
        odd = any(odd_join(entry.get("join", {})) for entry in engines)
        odd = odd or bool(self._topology.get("config"))
        self._take_note(engines)
        for gate in [*names.waited]:
            if any(e.get("join", {}).get("gate") == gate for e in engines):
                self._open(gate)
        if odd or self._steps:
            self._steps.append({"connect": True})
        if odd:
            config = self._topology.setdefault("config", {})
            config["ready_timeout_s"] = READY_S
        else:
            for phrase in self._draft.story:
                self._phrase(phrase)
        self._end(engines)
        return {
            "title": TITLE,
            "promise": PROMISE,
            "refs": [REFERENCE],
            **({"profiles": self._profiles} if self._profiles else {}),
            "topology": self._topology,
            **({"engines": engines} if engines else {}),
            **({"connect_fails": True} if odd else {}),
            "steps": self._steps or [{"fence": True}],
        }

    def _take_note(self, engines: list[dict[str, Data]]) -> None:
        """Keep in mind what rules may do to any step."""
        for rule in (rule for entry in engines for rule in entry["rules"]):
            actions = rule["do"]
            self._quiet = self._quiet or makes_unsure(actions)
            self._over = self._over or may_break(actions)
            self._stalls = self._stalls or any("stall" in action for action in actions)
            unending = rule["on"] == "add" and not ends_request(actions)
            unanswered = rule["on"] == "utility" and not answers(actions)
            self._paused = self._paused or unending or unanswered

    def _engines(self) -> Iterator[dict[str, Data]]:
        for entry in self._draft.engines:
            rules = []
            for rule in entry["rules"]:
                try:
                    rules.append(self._names.put(rule))
                except NothingThereError:
                    continue
            try:
                yield {**self._names.put({**entry, "rules": []}), "rules": rules}
            except NothingThereError:
                continue

    # --- steps --------------------------------------------------------------------------------

    def _phrase(self, phrase: Phrase) -> None:
        if self._together and together.moves(phrase.step):
            self._all_together(phrase)
            return
        there = len(self._names.kinds)
        for _ in range(1 + phrase.twice):
            if not self._step(phrase.step):
                return
        started = list(self._names.kinds)[there:]
        self._stage(phrase, started[-1] if started else None)
        if not started or (phrase.end == "abort" and not self._may("abort", None)):
            return
        if phrase.end and not self._leaving:
            return
        if phrase.end == "abort":
            self._steps.append({"abort": started})
        elif phrase.end:
            self._steps += [{phrase.end: name} for name in started]
            self._names.left.update(dict.fromkeys(started))
        if phrase.again and phrase.end:
            self._again(started[-1])

    def _all_together(self, phrase: Phrase) -> None:
        """A call that all ranks carry out together: one at a time, and its caller stays."""
        if not self._leaving and phrase.step["utility"]["method"] in PAUSING:
            return  # whoever waits for paused engines leaves at the end
        if (
            not self._sure("any")
            or self._waiting()
            or not self._step(together.patient(phrase.step))
        ):
            return
        name = self._names.open_ops[0]
        self._names.left[name] = None
        self._steps.append({"finish": [name]})

    def _again(self, name: str) -> None:
        """A call with the id of one whose caller has left."""
        call = next(s["call"] for s in self._steps if s.get("call", {}).get("id") == name)
        kept = {key: call[key] for key in ("rank", "surface", "frontend") if key in call}
        reused = call.get("request_id", name)
        self._step({"call": {"id": Ref("new-call"), **kept, "request_id": reused}})

    def _step(self, raw: Mapping[str, Data]) -> bool:
        before = (dict(self._names.kinds), list(self._names.calls), dict(self._names.waited))
        try:
            step: dict[str, Data] = self._names.put(raw)
        except NothingThereError:
            self._names.kinds, self._names.calls, self._names.waited = before
            return False
        verb, payload = next(iter(step.items()))
        if self._together and verb == "call":
            payload.pop("request_id", None)
        if not self._may(verb, payload):
            return False
        if verb == "engine" and not self._acts(payload):
            return False
        if verb == "engine" and (self._stalls or waits(payload.get("do", []))):
            payload["background"] = True
        if verb == "signal" and payload == "STOP":
            self._steps.append({"signal": "STOP"})
            step = {"signal": "CONT"}
        self._steps.append(step)
        self._notice(verb, payload)
        return True

    def _possible(self, actions: list[dict[str, Data]], on: str) -> list[dict[str, Data]]:
        """Actions that engines of this topology can carry out."""
        if self._together:
            return together.actions(actions, on)
        if self._topology["coordinator"] == "none":
            actions = [action for action in actions if not is_for_coordinator(action)]
        if self._names.frontends > 1:
            actions = [action for action in actions if "raw" not in action]
        if on in ("add", "abort"):
            return actions
        found = [self._alone(action, on) for action in actions]
        return [action for action in found if action is not None]

    def _acts(self, payload: dict[str, Data]) -> bool:
        """Keep of an engine step what its engines can do; whether something is left."""
        which = payload.get("engine", "all")
        ranks = self._ranks if which == "all" else [which]
        dead = [rank for rank in ranks if rank in self._dead]
        if payload.get("rejoin") and not dead:
            del payload["rejoin"]
        unsure = self._stalls or self._waiting() or len(dead) < len(ranks)
        if payload.get("rejoin") and unsure:
            return False
        if dead and not payload.get("rejoin"):
            return False
        payload["do"] = self._possible(payload["do"], "act")
        self._dead -= set(dead)
        if any("die" in action for action in payload["do"]):
            self._dead |= set(ranks)
            cut = next(i for i, action in enumerate(payload["do"]) if "die" in action)
            del payload["do"][cut + 1 :]
        if not payload["do"] and payload.get("rejoin"):
            del payload["do"]
        return bool(payload.get("do") or payload.get("rejoin"))

    def _alone(self, action: dict[str, Data], on: str) -> dict[str, Data] | None:
        """An action that needs no request, and out of the blue no call; or ``None``."""
        if on == "act" and "reply_with" in action and "call_id" not in action["reply_with"]:
            return None
        if "output" in action and "request" not in action["output"]:
            names = self._names.calls[-1:] or (["c1"] if self._names.every_call else [])
            return {"output": {**action["output"], "request": names[0]}} if names else None
        return action

    def _may(self, verb: str, payload: Data) -> bool:
        if self._together and not together.may(verb, payload):
            return False
        if verb in together.LEAVES and not self._leaving:
            return False
        if verb == "coordinator":
            return self._names.external and self._turns(payload)
        if verb == "shutdown":
            return self._names.frontends == 1
        if verb == "fence":
            return self._sure("any") and not self._waiting()
        if verb in ("finish", "crowd", "load"):
            return self._sure("any") and not self._waiting() and not self._paused
        return verb != "abort" or (not self._over and self._sure("abort"))

    def _turns(self, payload: Mapping[str, Data]) -> bool:
        """Whether a step about the coordinator can be carried out: it starts only once stopped."""
        if payload.get("stop"):
            runs, self._runs = self._runs, False
            return runs
        if payload.get("start"):
            runs, self._runs = self._runs, True
            return not runs
        return self._runs

    def _notice(self, verb: str, payload: Data) -> None:
        """Keep in mind what a step does to those that follow."""
        if verb == "link":
            gate = payload.get("hold") or payload.get("hold_after")
            if gate is not None:
                self._held[gate] = payload.get("frames", "any")
            elif "fail" in payload:
                self._quiet = self._over = True
        elif verb in ("cancel", "drop"):
            self._names.left[payload] = None
        elif verb in ("shutdown", "signal", "coordinator"):
            self._quiet = self._over = True
        elif verb == "utility":
            self._paused = self._paused or payload["method"] in PAUSING
        elif verb == "engine" and makes_unsure(payload.get("do", [])):
            self._quiet = True
            self._over = self._over or may_break(payload.get("do", []))
            self._stalls = self._stalls or any("stall" in a for a in payload.get("do", []))

    def _stage(self, phrase: Phrase, started: str | None) -> None:
        verb = next(iter(phrase.step))
        if phrase.stage == "fence" and self._may("fence", None):
            self._steps.append({"fence": True})
        if phrase.stage not in ("sent", "first") or started is None:
            return
        payload = self._steps[-1][verb]
        kind = "add" if verb == "call" else "utility"
        if not self._sure(kind) or not is_plain(payload, self._ranks):
            return
        if verb == "call":
            match: dict[str, Data] = {"event": "add", "request": started}
        else:
            match = {"event": "utility", "engine": self._ranks[0]}
            count = sum("utility" in step for step in self._steps)
            if count > 1:
                return  # which of the calls it is, the event does not tell
        self._steps.append({"wait": match})

    def _sure(self, kind: str) -> bool:
        """Whether a message of this kind is sure to arrive."""
        held = [frames for gate, frames in self._held.items() if gate not in self._names.opened]
        blocked = any(kind == "any" or frames in ("any", kind) for frames in held)
        return not self._quiet and not blocked

    def _waiting(self) -> bool:
        """Whether something may wait at a gate."""
        return any(gate not in self._names.opened for gate in self._names.waited)

    def _open(self, gate: str) -> None:
        self._steps.append({"open": gate})
        self._names.opened[gate] = None

    # --- the end ------------------------------------------------------------------------------

    def _end(self, engines: list[dict[str, Data]]) -> None:
        names = self._names
        for gate in list(names.waited):
            if gate not in names.opened:
                self._open(gate)
        acts = [step["engine"].get("do", []) for step in self._steps if "engine" in step]
        acts += [rule["do"] for entry in engines for rule in entry["rules"]]
        on = [(rule["on"], rule["do"]) for entry in engines for rule in entry["rules"]]
        stays: dict[str, bool] = {
            "call": any(kind == "add" and not ends_request(do) for kind, do in on),
            "utility": any(kind == "utility" and not answers(do) for kind, do in on),
            "request": False,
        }
        called = {step["utility"]["method"] for step in self._steps if "utility" in step}
        pauses = bool(PAUSING & called)
        if pauses or any(may_swallow(do) for do in acts):
            stays = dict.fromkeys(stays, True)
        for name in reversed(names.open_ops):
            if stays[names.kinds[name]]:
                self._steps.append({"cancel": name})
