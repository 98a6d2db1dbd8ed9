"""The work queue: once each, one worker a key, back-off, asked-for times."""

import asyncio

import pytest

from jobset.reconcile.queue import WorkQueue


async def test_a_key_added_twice_comes_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_in_work_comes_again_only_after_done() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await queue.get()
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert queue.idle


async def test_back_off_doubles_and_is_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue()
    delays = [queue.add_failed("a") for _ in range(4)]
    assert delays == [0.005, 0.01, 0.02, 0.04]
    queue.forget("a")
    assert queue.add_failed("a") == 0.005
    assert max(queue.add_failed("b") for _ in range(40)) == 1000.0


async def test_the_earliest_asked_for_time_wins() -> None:
    queue: WorkQueue[str] = WorkQueue()
    loop = asyncio.get_running_loop()
    queue.add_after("a", 60)
    queue.add_after("a", 10)
    queue.add_after("a", 30)
    assert await queue.get() == "a"
    assert loop.time() == pytest.approx(10, abs=0.01)
    queue.done("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(120):
            await queue.get()


async def test_a_cancelled_waiter_does_not_swallow_a_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(queue.get())
        second = group.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await second == "a"
