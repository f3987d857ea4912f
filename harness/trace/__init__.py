"""Typed events, their recorder, JSON lines and digest."""
