"""How an engine differs from a well-behaved one: rules of actions, as data."""

from mock_engines.behaviours.model import Action, EngineSpec, Join, Rule, Strict

__all__ = ["Action", "EngineSpec", "Join", "Rule", "Strict"]
