"""python -m examples.web_service.worker: run the team on what was submitted to the log of STENOLOG_DB."""

from __future__ import annotations

import asyncio
import os
import signal

import stenolog
from stenolog import Log
from stenolog.workers import Worker

from .team import team


async def work(log: Log) -> None:
    """Work until a signal says to stop; a second one stops at once what is under way."""
    worker = Worker(log, team())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    await worker.run()


if __name__ == "__main__":
    with stenolog.open(os.environ["STENOLOG_DB"]) as log:
        asyncio.run(work(log))
