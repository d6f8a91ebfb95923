"""Queries: the conversation, position and agent that an address names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request as HttpRequest

from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.queries.overviews import folder_of
from stenolog.adapters.store.reading import arguments
from stenolog.apps.views.asked_request import AskedRequest, edits_asked, policy_asked
from stenolog.apps.views.cost_table import CostTable
from stenolog.apps.views.lanes import own_api
from stenolog.apps.views.positions import is_number, position_ranges
from stenolog.domain.base.near_names import closest
from stenolog.domain.errors import AgentNotFoundError, InvalidEventError
from stenolog.projections.requests.sendable import no_agent
from stenolog.projections.views.calls import CallStatus, open_calls
from stenolog.projections.views.editors import editor_link
from stenolog.projections.views.tool_pairs import CallKey

from .conversation_index import ConversationIndex
from .index_cache import IndexCache

CONDITIONS = ("policy", "budget", "mode", "without")
"""The parameters, beside `edit`, under which a request is built."""
NAMED = 1000
"""The conversations among which a name that was mistyped is looked for."""


class Query:
    """A query, read from its address when it is asked for. Raises `CallerError` and its subclasses."""

    def __init__(self, log: Log, indexes: IndexCache, request: HttpRequest) -> None:
        self.log = log
        self.root: str = request.scope.get("root_path", "")
        self._indexes = indexes
        self._request = request
        indexes.warmer.note_question()

    def expect(self, key: Hashable, steps: Iterable[Callable[[], object]]) -> None:
        """Have work done in the background that the next page is likely to need; see `Warmer.add`."""
        self._indexes.warmer.add(key, steps)

    def later(self, key: Hashable, version: object, work: Callable[[], Any], seconds: float) -> Any:
        """Return a value that takes long, or None; see `Later.get`."""
        return self._indexes.later.get(key, version, work, seconds)

    def last(self, key: Hashable) -> Any:
        """Return the value before that which takes long, or None; see `Later.last`."""
        # If words were erased, the index has it forget them.
        self._indexes.of(self.conversation)
        return self._indexes.later.last(key)

    @cached_property
    def costs(self) -> CostTable:
        """The costs of all conversations."""
        return self._indexes.costs(self.log)

    def word(self, name: str, default: str = "") -> str:
        """Return a parameter as it was written."""
        return self._request.query_params.get(name, default)

    def values(self, name: str) -> list[str]:
        """Return every value of a parameter that is not blank."""
        return [word for word in self._request.query_params.getlist(name) if word.strip()]

    def header(self, name: str) -> str:
        """Return a header of the request, or ""."""
        return self._request.headers.get(name, "")

    def number(self, name: str, default: int) -> int:
        """Return a parameter that is a position or a count. Raises `InvalidEventError`."""
        written = self.word(name)
        if not written:
            return default
        if not is_number(written):
            raise InvalidEventError(f"{name}: expected a position, found {written!r:.60}")
        return int(written)

    def link(self, page: str, **parameters: object) -> str:
        """Return the address of a page of the conversation; parameters without a value are left out."""
        given = urlencode({name: value for name, value in parameters.items() if value not in ("", None)})
        address = f"{self.root}/{page}/{quote(self._request.path_params['name'], safe='')}"
        return f"{address}?{given}" if given else address

    def editor_link(self, arguments: str) -> str:
        """Return the address that opens a call's file in the editor; empty without one."""
        return editor_link(self._editor, arguments, self._folder) if self._editor else ""

    @cached_property
    def _editor(self) -> str:
        return str(self._request.app.state.editor)

    @cached_property
    def _folder(self) -> str:
        return folder_of(self.conversation)

    @cached_property
    def conversation(self) -> Conversation:
        """The conversation in the path. Raises `ConversationNotFoundError` with the nearest name."""
        name = self._request.path_params["name"]
        talk = self.log[name]
        if not talk.position:
            near = closest(name, self.log.names(limit=NAMED, order="latest"))
            error = arguments.missing(name, self.log.path)
            raise type(error)(f"{name!r}: no such conversation{f'; did you mean {near!r}?' if near else ''}")
        return talk

    @cached_property
    def index(self) -> ConversationIndex:
        """The conversation's agents and marks, up to its end."""
        return self._indexes.of(self.conversation)

    @cached_property
    def open_calls(self) -> dict[CallKey, CallStatus]:
        """The calls that are open at the end, with what each waits for."""
        return open_calls(self.conversation.state())

    @cached_property
    def head(self) -> int:
        """The position of the last entry."""
        return self.conversation.position

    @cached_property
    def at(self) -> int:
        """The position, the last one unless it is named. Raises `PositionNotFoundError`."""
        return self.conversation.checked(self.number("at", self.head), least=1)

    @cached_property
    def agent(self) -> str:
        """The address of the named agent, else of the first one; "" if there is none.

        Raises `AgentNotFoundError`.
        """
        agents = self.index.agents
        named = self.word("agent")
        if named and named not in agents:
            raise AgentNotFoundError(f"{self.conversation.name!r}: {no_agent(named, [*agents])}")
        return named or next(iter(agents), "")

    @cached_property
    def asked_request(self) -> AskedRequest:
        """The request that `agent`, `at`, `api` and the `conditions` name.

        Raises `InvalidEventError` if no agent has a request.
        """
        if not self.agent:
            raise InvalidEventError(f"{self.conversation.name!r}: no agent has a request here")
        api = self.word("api") or own_api(self.conversation, self.agent)
        policy, budget, mode, without = (self.word(name).strip() or None for name in CONDITIONS)
        chosen = policy_asked(self.conversation, self.agent, self.at, policy, budget, prefix="")
        ranges = [*position_ranges([without], self._left_out)] if without else []
        edits = edits_asked(self._edits)
        return AskedRequest(self.conversation, self.agent, self.at, api, chosen, ranges, mode, edits)

    @property
    def conditions(self) -> dict[str, str | list[str]]:
        """The conditions under which the request is built, as they were written."""
        written = {name: self.word(name).strip() for name in CONDITIONS}
        given: dict[str, str | list[str]] = {name: word for name, word in written.items() if word}
        return {**given, "edit": self._edits} if self._edits else given

    @cached_property
    def _edits(self) -> list[str]:
        return self.values("edit")

    def _left_out(self, written: str) -> int:
        if not is_number(written):
            raise InvalidEventError(f"without: expected positions such as 91 or 40-44, found {written!r:.60}")
        return self.conversation.checked(int(written), least=1)
