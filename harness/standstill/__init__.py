"""Why a step of a scenario does not come to its end, in the scenario's own words. Pure."""

from harness.standstill.telling import Stand, tell

__all__ = ["Stand", "tell"]
