"""Adapters that are part of the package; the protocol is in ``docs/adapter.md``."""
