"""The command line: one module for each command."""

from harness.cli.main import main

__all__ = ["main"]
