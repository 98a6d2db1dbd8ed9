"""Async tests run on virtual time, where sleeping costs nothing; those marked `real_loop` run on a real event loop."""

import asyncio
import inspect

import pytest

from jobset.sim.loop import run_virtual


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    test = pyfuncitem.obj(**arguments)
    if pyfuncitem.get_closest_marker("real_loop"):
        asyncio.run(test)
    else:
        run_virtual(test)
    return True
