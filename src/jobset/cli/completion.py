"""`jobset completion`: the script that a shell needs to complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
HOW = {
    "bash": 'eval "$(jobset completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(jobset completion zsh)"       # in ~/.zshrc',
    "fish": "jobset completion fish | source       # in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(HOW.values()))
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL."""
    completer = get_completion_class(shell)
    assert completer is not None
    click.echo(completer(ctx.find_root().command, {}, "jobset", "_JOBSET_COMPLETE").source())
