"""JSON-RPC 2.0 over standard input and output: a line is a call, or an answer.

    {"jsonrpc": "2.0", "id": 1, "method": "about", "params": {}}
    {"jsonrpc": "2.0", "id": 1, "result": {"stenolog": "0.1.0", "protocol": 1, "methods": [...]}}

Calls run in parallel, and are answered as they end; those that write to one conversation run in order. A call
without an id is not answered. At the end of the input all calls are finished, and this process's claims
released.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO, TypeAlias

from pydantic_core import from_json, to_json

from .faults import InvalidCallError, ParseError, TooManyCallsError, error_data, rpc_code
from .service import WRITES, Service
from .waiting import AT_ONCE, MOST_WAITING, WAITS, Waiting

Answer: TypeAlias = dict[str, Any]


def serve(service: Service, lines: BinaryIO, out: BinaryIO) -> None:
    """Answer the calls in a stream of lines."""
    turn = threading.Lock()

    def write(answer: Answer) -> None:
        line = to_json({"jsonrpc": "2.0", **answer}) + b"\n"
        # Nobody reads any more, and the end of the input follows.
        with turn, suppress(BrokenPipeError):
            out.write(line)
            out.flush()

    with (
        ThreadPoolExecutor(AT_ONCE, "stenolog call") as threads,
        ThreadPoolExecutor(MOST_WAITING, "stenolog wait") as waiting,
    ):
        queues = _Queues(threads, waiting)
        try:
            for line in lines:
                if line.strip():
                    _begin(service, line, write, queues)
        finally:
            service.close()


class _Queues:
    """Queues of calls by conversation, each in order, all in parallel."""

    def __init__(self, threads: ThreadPoolExecutor, waiting: ThreadPoolExecutor) -> None:
        self.threads, self._waiting_threads = threads, waiting
        self._places = Waiting()
        self._turn = threading.Lock()
        self._waiting: dict[str, deque[Callable[[], None]]] = {}

    def add(self, name: str, work: Callable[[], None]) -> None:
        with self._turn:
            queue = self._waiting.get(name)
            if queue is None:
                self._waiting[name] = deque([work])
                self.threads.submit(self._do_all, name)
            else:
                queue.append(work)

    def wait(self, work: Callable[[], None]) -> None:
        """Do work that may take minutes. Raises `TooManyCallsError`."""
        self._places.take()
        self._waiting_threads.submit(self._places.done, work)

    def _do_all(self, name: str) -> None:
        while (work := self._next(name)) is not None:
            work()

    def _next(self, name: str) -> Callable[[], None] | None:
        with self._turn:
            queue = self._waiting[name]
            if queue:
                return queue.popleft()
            del self._waiting[name]
            return None


def _begin(service: Service, line: bytes, write: Callable[[Answer], None], queues: _Queues) -> None:
    try:
        call = _parse(line)
    except (ParseError, InvalidCallError) as error:
        write({"id": None, "error": _error(error)})
        return
    params, work = call.get("params"), partial(_answer, service, call, write)
    name = params.get("conversation") if isinstance(params, dict) else None
    if call["method"] in WAITS:
        try:
            queues.wait(work)
        except TooManyCallsError as error:
            _write(call, {"error": _error(error)}, write)
    elif call["method"] in WRITES and isinstance(name, str):
        queues.add(name, work)
    else:
        queues.threads.submit(work)


def _answer(service: Service, call: dict[str, Any], write: Callable[[Answer], None]) -> None:
    try:
        answer: Answer = {"result": service.call(call["method"], to_json(call.get("params", {})))}
    except Exception as error:
        answer = {"error": _error(error)}
    _write(call, answer, write)


def _write(call: dict[str, Any], answer: Answer, write: Callable[[Answer], None]) -> None:
    if "id" in call:
        write({"id": call["id"], **answer})


def _error(error: Exception) -> Answer:
    data = error_data(error)
    return {"code": rpc_code(error), "message": data["message"], "data": data}


def _parse(line: bytes) -> dict[str, Any]:
    """Return the call of a line. Raises `ParseError` and `InvalidCallError`."""
    try:
        call = from_json(line)
    except ValueError as error:
        raise ParseError(f"expected a line of JSON: {error}") from None
    if not isinstance(call, dict) or not isinstance(call.get("method"), str):
        raise InvalidCallError('expected an object with "jsonrpc", "id", "method" and "params"')
    return call
