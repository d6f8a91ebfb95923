"""The messages of the Agent Client Protocol, over the stdin and stdout of a process."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from stenolog.domain.errors import ModelError

from .answers import LIMIT
from .output_parser import JsonRows, parsed
from .process import Process


class Pipe:
    """A transport for the protocol's library. `fault` is the error that ended it, if the process did not."""

    def __init__(self, process: Process) -> None:
        self.fault: ModelError | None = None
        self._process = process
        self._rows = JsonRows()
        self._messages: deque[dict[str, Any]] = deque()

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises `ConnectionError` where nobody takes it."""
        if not self._process.alive:
            raise ConnectionError("the process has ended")
        self._process.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when there will be no more."""
        while not self._messages and self.fault is None:
            if not (data := await self._process.read()):
                return None
            self._take(data)
        return self._messages.popleft() if self._messages else None

    async def close(self) -> None:
        """Do nothing: the process is ended by its starter."""

    def _take(self, data: bytes) -> None:
        try:
            self._messages.extend(
                found for row in self._rows.take(data) if (found := parsed(row)) is not None
            )
            if self._rows.held > LIMIT:
                raise ModelError("invalid_response", f"more than {LIMIT:,} bytes in one line")
        except ModelError as error:
            self.fault = error
