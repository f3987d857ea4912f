"""Transports over real sockets."""
