"""The engine model and the coordinator, compared with vLLM's own classes, decision by decision.

Both sides get the same events in the same order and must do the same, and be in the same state,
after each of their effects. The oracle is the class of a release, executed from its own sources.
"""
