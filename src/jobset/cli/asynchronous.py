"""Runs the asynchronous part of a command that is otherwise synchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Raises what went wrong as it is: callers handle errors by type, and task groups wrap them."""
    try:
        return asyncio.run(coroutine)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
