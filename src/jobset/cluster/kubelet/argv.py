"""What a container executes: command and args with `$(VAR)` replaced. An image's own entry point is not known here.

Raises ConfigError with the reason of a start that cannot succeed, and words that tell what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobset.api.meta import Object
from jobset.cluster.kubelet.env import expand
from jobset.cluster.kubelet.sources import ConfigError

CANNOT_START = "StartError"


def build_argv(container: Object, env: Mapping[str, str]) -> tuple[str, ...]:
    command = container.get("command") or []
    if not command:
        raise ConfigError(_missing_command(container), CANNOT_START)
    return tuple(expand(word, env) for word in (*command, *(container.get("args") or ())))


def _missing_command(container: Object) -> str:
    image, args = container.get("image", ""), container.get("args") or []
    given = f"; its args {args} need a command before them" if args else ""
    return (
        f"container {container['name']!r} has no command, and image {image!r} is not pulled here: processes run on "
        f'this machine\'s files{given}. Give what the image would run, such as command: ["python", "train.py"]'
    )
