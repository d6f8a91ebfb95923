"""A conversation for reading: a sequence of entries, with everything that follows from them.

for entry in conversation: ...
conversation[-1], conversation[2:5], len(conversation)
conversation.entry(5)  # by position, which counts from 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar, overload

from stenolog.adapters.store.reading import arguments
from stenolog.adapters.store.reading.handle import StreamHandle
from stenolog.domain.entry import Entry
from stenolog.domain.errors import AgentNotFoundError, CallerError, InvalidEventError
from stenolog.domain.lanes.state import State
from stenolog.domain.lanes.step import Transition
from stenolog.domain.settings import Settings
from stenolog.projections.fold import Fold, transitions
from stenolog.projections.views.lines import describe
from stenolog.projections.views.timeline import TimelineItem, timeline

from . import folds

if TYPE_CHECKING:
    from stenolog.domain.policy import PolicyLike
    from stenolog.projections.analysis.explain import Explanation
    from stenolog.projections.analysis.provider_bill import Bill
    from stenolog.projections.context_curve import ContextCurve
    from stenolog.projections.formats.base import Format
    from stenolog.projections.requests import Request

    from .outputs import Outputs

S = TypeVar("S")


class EntryList(list[Entry]):
    """Some entries: a list, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return _table(f"{len(self):,} entries", len(self), lambda first, end: self[first:end])


def _table(caption: str, count: int, some: Callable[[int, int], Iterable[Entry]]) -> str:
    from stenolog.projections.html_table import table  # late: few programs show one

    def cells(entry: Entry) -> tuple[object, ...]:
        told = describe(entry)
        return entry.position, f"{entry.time:%Y-%m-%d %H:%M:%S}", entry.event.kind, told.who, told.what

    columns = ("", "time", "kind", "who", "words")
    return table(caption, columns, count, lambda first, end: map(cells, some(first, end)))


class ReadableConversation(StreamHandle):
    """The entries of one conversation, and projections of them.

    Positions and `at` as in `Conversation`.
    """

    def __iter__(self) -> Iterator[Entry]:
        return self.entries()

    def __len__(self) -> int:
        return self.position

    def _repr_html_(self) -> str:
        return _table(f"{self.name}, {self.position:,} entries", self.position, self.entries)

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        """Return entries as a list would: the first is 0, the last -1. By position: `entry(5)`.

        Raises `IndexError`, and `InvalidEventError` for anything but an integer or a slice of them.
        """
        if isinstance(index, slice):
            wanted = range(len(self))[index]
            if not wanted:
                return EntryList()
            found = list(self.entries(min(wanted), max(wanted) + 1))
            return EntryList(found[:: wanted.step])
        if isinstance(index, bool) or not isinstance(index, int):
            raise InvalidEventError(f"expected an index or a slice, found {index!r:.60}")
        length = len(self)
        if not -length <= index < length:
            raise IndexError(f"{self.name!r} has {length} entries, found the index {index}")
        return self.entry(index % length + 1)

    def state(self, at: int | None = None) -> State:
        """Return the state of every lane."""
        return folds.fold_at(self, folds.STATE, self._at(at))

    def settings(self, at: int | None = None) -> Settings:
        """Return the configuration: mode, cards, members."""
        return folds.fold_at(self, folds.SETTINGS, self._at(at))

    def fold(self, fold: Fold[S], at: int | None = None) -> S:
        """Return a fold's state, from a checkpoint if the fold names its state's type."""
        if not isinstance(fold, Fold):
            raise CallerError(f"fold: expected what `@fold(initial=…)` makes, found {type(fold).__name__}")
        checked = self._at(at)
        if fold.state is None:
            return fold(self.entries(at=checked))
        return folds.fold_at(self, folds.persistent(fold), checked)

    def timeline(self, at: int | None = None) -> list[TimelineItem]:
        """Return the items that a user interface shows."""
        return timeline(self.entries(at=self._at(at)))

    def transitions(self, at: int | None = None) -> list[Transition]:
        """Return the engine's transitions, entry by entry."""
        return list(transitions(self.entries(at=self._at(at))))

    def request(
        self,
        agent: str,
        at: int | None = None,
        api: str | Format | None = None,
        *,
        task: str = "",
        policy: PolicyLike = None,
    ) -> Request:
        """Return the agent's request at a position: the exact body, and each part's origin.

        A new agent has an empty card; a likely slip for a known name is refused. `policy` is a value of
        `stenolog.context`, or its JSON; None: the card's. `api` is one of `stenolog.requests.FORMATS`; None:
        that of the agent's answers, before the first one of its card's provider or model, else "openai-chat".
        Raises `ConversationNotFoundError`, `AgentNotFoundError`, `PositionNotFoundError`,
        `InvalidPolicyError`, and `UnsupportedVersionError` if an entry needs one.
        """
        from .requests.building import request  # late: a program that builds none need not wait for it

        if at is not None:
            self.checked(at, least=1)
        try:
            return request(self, agent, task, at, api, policy)
        except AgentNotFoundError:
            if self.position:
                raise
        raise arguments.missing(self.name, self.log.path)

    def bill(self, agent: str, at: int | None = None, *, task: str = "") -> Bill:
        """Return the provider's bill for the agent's request at a position, with rebuilt tokens.

        If another program gave the answers, `note` says what is unknown of the request. Before an answer it
        is the previous request's bill. Raises as `request`.
        """
        from .requests import bills  # late, as above

        self.checked(self.position if at is None else at, least=1)
        return bills.bill_at(self, agent, task, at)

    def context_curve(self, agent: str, at: int | None = None, *, task: str = "") -> ContextCurve:
        """Return an agent's context over time: tokens of each request, and what reduced it.

        `samples` has the tokens of each model call: rebuilt, billed, and read from the provider's cache;
        `svg()` is the picture. Raises `ConversationNotFoundError`, `AgentNotFoundError`,
        `PositionNotFoundError`.
        """
        from .requests import curves  # late, as above

        self.checked(self.position if at is None else at, least=1)
        return curves.context_curve(self, agent, task, at)

    def explain(self, position: int, *, api: str | None = None, policy: PolicyLike = None) -> Explanation:
        """Return where an entry went: into whose requests, in what form, and what refers to it.

        `api` and `policy` as for `request`. Raises `PositionNotFoundError`, `ConversationNotFoundError`.
        """
        from stenolog.projections.analysis.explain import explain  # late, as above

        self.checked(position, least=1)
        blobs = self.log.blobs
        return explain(self.entries(), position, api=api, policy=policy, blobs=blobs)

    def export(
        self,
        form: str = "jsonl",
        *,
        agent: str = "",
        at: int | None = None,
        api: str | None = None,
        policy: PolicyLike = None,
    ) -> str:
        """Return the conversation as text: "jsonl", "openai", or a plugin's form.

        `agent` is whose messages to write, for a form of one agent among several. "json", "curl", "python"
        and "pytest" write the agent's request at a position, on the API and policy it was sent by, or on
        others. Raises `NotRegisteredError`, `CallerError`, `AgentNotFoundError`, `BlobNotFoundError` and,
        with an agent, `ConversationNotFoundError`; for a request, as `request`.
        """
        from .exporters import export  # late, as above

        if agent and not self.position:
            raise arguments.missing(self.name, self.log.path)
        return export(self, form, agent, at, api=api, policy=policy)

    @property
    def outputs(self) -> Outputs:
        """Tool outputs and artifacts in full, by the aliases that requests show."""
        from .outputs import Outputs  # late, as above

        return Outputs(self)

    def _at(self, at: int | None) -> int | None:
        return None if at is None else self.checked(at)
