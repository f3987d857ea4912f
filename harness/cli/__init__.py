"""The command line: one module for each command."""

from harness.cli.entry import main

__all__ = ["main"]
