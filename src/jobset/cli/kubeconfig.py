"""`jobset kubeconfig`: print how to reach a kept cluster, or make it a context of the user's own kubeconfig."""

from __future__ import annotations

import os

import click

from jobset.cli.up import ClusterFailed, name_option
from jobset.local.kept_place import find_running, place_of


@click.command()
@name_option
@click.option("--merge", is_flag=True, help="Add it to your kubeconfig ($KUBECONFIG or ~/.kube/config) as a context.")
@click.option("--use/--no-use", default=True, show_default=True, help="With --merge: make it the current context.")
@click.option("--remove", is_flag=True, help="Take the context out of your kubeconfig again.")
def kubeconfig(name: str, merge: bool, use: bool, remove: bool) -> None:
    """Print the kubeconfig of a cluster, or merge it into yours. It holds a private key: keep it to yourself."""
    from jobset.local import kubeconfig_file

    place, path = place_of(name, os.environ), kubeconfig_file.user_file(os.environ)
    try:
        if remove:
            kubeconfig_file.remove_from(path, name)
            click.echo(f"removed context {kubeconfig_file.context_name(name)} from {path}")
            return
        if not place.kubeconfig.exists():
            raise ClusterFailed(f"there is no cluster {name}: jobset up --name {name} makes one")
        text = place.kubeconfig.read_text()
        if not merge:
            click.echo(text, nl=False)
            return
        kubeconfig_file.merge_into(path, kubeconfig_file.parse(text), set_current=use)
    except kubeconfig_file.BadKubeconfig as error:
        raise ClusterFailed(str(error)) from None
    click.echo(f"added context {kubeconfig_file.context_name(name)} to {path}")
    if find_running(place) is None:
        click.echo(f"cluster {name} is not up: jobset up --name {name}", err=True)
