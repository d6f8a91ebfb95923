"""Check at dispatch: a request is built again from the store, and compared with what is sent.

The engine builds requests from windows that it keeps up to date. The check reads all entries through a fresh
connection. If a byte differs, the call is not made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.domain.entry import to_entry
from stenolog.domain.errors import ModelError
from stenolog.projections.formats.base import Format
from stenolog.projections.requests import Request, build
from stenolog.projections.requests.transport import Outgoing, Transport

# The check reads the whole conversation, so only a sample of calls pays for it.
SAMPLED = 0.01
"""The share of calls that are checked if not all are."""
BODY = Transport()
DIFFERS = "not sent: the request, built again from the log, differs"


def rebuilt(conversation: Conversation, request: Request, api: str | Format) -> Request:
    """Build a request again from the store, without this process's windows and caches."""
    with _fresh(conversation) as fresh:
        records = fresh.records(at=request.at)
        entries = [to_entry(conversation.name, record) for record in records]
        return build(
            entries,
            request.agent,
            task=request.task,
            api=api,
            blobs=fresh.log.blobs,
            counters=COUNTERS,
        )


@contextmanager
def _fresh(conversation: Conversation) -> Iterator[Conversation]:
    log = conversation.log
    # A log in memory has one connection only.
    if log.recorder.is_private:
        yield conversation
        return
    with open_log(log.recorder.address) as fresh:
        yield fresh[conversation.name]


class DispatchCheck:
    """Check of one model call. Nothing is compared before `begin`."""

    def __init__(self, conversation: Conversation, request: Request, api: str | Format) -> None:
        self._conversation = conversation
        self._request = request
        self._api = api
        self._again: Request | None = None

    def begin(self) -> None:
        """Build the request again, and compare its body. Raises `ModelError` if it differs."""
        self._again = rebuilt(self._conversation, self._request, self._api)
        self.compare(Outgoing(BODY.render(self._request.body), BODY))

    def compare(self, outgoing: Outgoing) -> None:
        """Compare the bytes to be sent. Raises `ModelError` if they differ."""
        if self._again is None or outgoing.transport.render(self._again.body) == outgoing.content:
            return
        where = f"at {self._again.at}, sha256 of the body {self._again.sha256[:12]}…"
        raise ModelError("invalid_request", f"{DIFFERS} ({where})")
