"""Engines that join any frontend of the protocol and misbehave on command."""
