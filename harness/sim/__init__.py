"""The simulated world: a deterministic event loop and in-memory links."""
