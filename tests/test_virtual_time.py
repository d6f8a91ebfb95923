"""Waits of tests take no real time, happen in order, and never overtake what is really at work."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from tests import virtual_time

HOUR = 3600.0


def test_waits_take_no_real_time_and_end_in_the_order_in_which_they_fall_due() -> None:
    ended: list[str] = []

    async def wait(hours: float) -> None:
        await asyncio.sleep(hours * HOUR)
        ended.append(f"{hours:g}")

    async def main() -> float:
        began = asyncio.get_running_loop().time()
        await asyncio.gather(wait(2), wait(0.5), wait(1))
        return asyncio.get_running_loop().time() - began

    began = time.monotonic()
    virtual = virtual_time.run(main(), 3 * HOUR)

    assert ended == ["0.5", "1", "2"]
    assert virtual >= 2 * HOUR > time.monotonic() - began


@pytest.mark.parametrize("how", ["an executor", "a thread"])
def test_no_timeout_overtakes_work_in_a_thread(how: str) -> None:
    gate = threading.Event()

    async def main() -> str:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def work() -> None:
            gate.wait(0.05)
            loop.call_soon_threadsafe(ended.set)

        async with asyncio.timeout(5):
            if how == "a thread":
                threading.Thread(target=work, name="tool slow").start()
            else:
                await asyncio.to_thread(work)
            await ended.wait()
        return "done"

    assert virtual_time.run(main(), 10) == "done"


def test_no_timeout_overtakes_what_comes_through_a_pipe() -> None:
    read, write = os.pipe()

    async def main() -> bytes:
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(read, came.set)
        writer = threading.Timer(0.05, os.write, (write, b"x"))
        writer.name = "stenolog, as if it were another process"
        writer.start()
        try:
            async with asyncio.timeout(5):
                await came.wait()
        finally:
            loop.remove_reader(read)
            writer.join()
        return os.read(read, 1)

    try:
        assert virtual_time.run(main(), 10) == b"x"
    finally:
        os.close(read)
        os.close(write)


def test_a_coroutine_that_waits_for_what_never_comes_is_ended_at_once() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        virtual_time.run(main(), HOUR)

    assert time.monotonic() - began < HOUR
