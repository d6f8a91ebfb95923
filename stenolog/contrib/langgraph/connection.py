"""A saver over a log that is opened for a `with` block, and closed at its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Generic, TypeVar

import stenolog
from stenolog import Log

Saver = TypeVar("Saver")


class Connection(AbstractContextManager[Saver], AbstractAsyncContextManager[Saver], Generic[Saver]):
    """Opens the log for `with` and `async with`, and makes the saver of it."""

    def __init__(self, path: str | os.PathLike[str], saver_of: Callable[[Log], Saver]) -> None:
        self._path = path
        self._saver_of = saver_of
        self._log: Log | None = None

    def __enter__(self) -> Saver:
        self._log = log = stenolog.open(self._path)
        try:
            return self._saver_of(log)
        except BaseException:
            log.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._log is not None:
            self._log.close()

    async def __aenter__(self) -> Saver:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)
