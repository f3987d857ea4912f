"""Faults of changes of the number of engines, in the client."""

HIDDEN = "no frontend in a process of its own changes the number of its engines"
"""Why such a fault shows on sim and on zmq only."""
