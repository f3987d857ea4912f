"""``wavecheck completion``: the script that lets a shell complete commands, options and ids."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from harness.cli.output import to_stdout
from harness.verdict import ExitCode

PROGRAM = "wavecheck"
VARIABLE = "_WAVECHECK_COMPLETE"
"""With this variable set, ``wavecheck`` answers the shell's script instead of running."""


class _Bash(BashComplete):
    """Without a look at the bash of this machine: the script may be for another one."""

    @staticmethod
    def _check_version() -> None:
        """The script says itself which bash it needs."""


SHELLS: dict[str, type[ShellComplete]] = {
    "bash": _Bash,
    "zsh": ZshComplete,
    "fish": FishComplete,
}


@click.command(
    "completion",
    epilog="""\b
Examples:
  eval "$(wavecheck completion bash)"                          in this shell; in ~/.bashrc always
  eval "$(wavecheck completion zsh)"                           in ~/.zshrc, behind compinit
  wavecheck completion fish > ~/.config/fish/completions/wavecheck.fish
""",
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion_command(shell: str) -> int:
    """Print the script that completes commands, options, scenario ids, mutants and releases."""
    root = click.get_current_context().find_root().command
    to_stdout(SHELLS[shell](root, {}, PROGRAM, VARIABLE).source().strip() + "\n")
    return int(ExitCode.OK)
