"""A call that asks one engine after the other and stops at the first that says no."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from client.components import Components
from client.fan_out_call import FanOutCall
from harness.mutants.base import Mutant


class OneAfterTheOther(FanOutCall[Any]):
    """Does not ask an engine whose answer would change nothing."""

    async def run(self) -> list[Any]:
        """Return the values up to the first that is false."""
        values: list[Any] = []
        for engine in self._engines:
            one = FanOutCall(
                self._inner,
                client_index=self._client_index,
                method=self._method,
                args=self._args,
                result_type=self._result_type,
                engines=[engine],
                timeout_s=self._timeout_s,
            )
            values += await one.run()
            if values[-1] is False:
                break
        return values


class EnginesAskedUntilOneRefuses(Mutant):
    """See the module."""

    id = "engines-asked-until-one-refuses"
    family = "fan-out"
    title = "engines are asked one by one until one says no"
    bug = "An undo stops at the engine that has nothing to undo, and the others keep the change."
    source = (
        "https://github.com/vllm-project/vllm/pull/52671 (why callers compensate); a seeded fault"
    )
    killed_by = "engine.utility-effects-settled"
    hidden_because = (
        "what is left behind at an engine is a wish, which no table of releases counts as a "
        "regression"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the call that fans out."""
        return replace(base, fan_out_call=OneAfterTheOther)
