"""Recorded calls of a log, tried under a change: one value for terminal, page and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.domain.entry import Entry
from stenolog.domain.errors import AgentNotFoundError, CallerError, StenologError, StoredDataError
from stenolog.domain.lanes.state import runs_in_words
from stenolog.projections.analysis.retry import Case, Change, Here, Tried, cases, sample, tried
from stenolog.projections.analysis.retry.comparing import What
from stenolog.projections.requests.sendable import no_agent

from .figures import counted

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log

LISTED: tuple[What, ...] = ("changed", "refused", "unbuilt", "vanished", "new")
"""The outcomes that are listed one by one; all but "new" fail."""
MEANINGS = {
    "changed": "another request",
    "refused": "it would not be sent",
    "unbuilt": "it cannot be built",
    "vanished": "the log has no such call any more",
    "new": "the file has no such call",
}


class Corpus(NamedTuple):
    """The calls of one conversation that are tried."""

    conversation: Conversation
    entries: Sequence[Entry]
    cases: Sequence[Case]


class Results(NamedTuple):
    """The outcome of calls under a change, in words; `listed` are those that are not the same.

    `unproved` calls have no receipt, so without a change nothing says what they were sent. `tokens` are those
    of all requests, then and now.
    """

    change: str
    conversations: tuple[str, ...]
    counts: Counter[What]
    listed: tuple[Tried, ...]
    unproved: int
    tokens: tuple[int, int]

    @property
    def calls(self) -> int:
        """The calls that were tried."""
        return self.counts.total() - self.counts["vanished"]

    @property
    def failed(self) -> bool:
        """True if a request is not the same."""
        return any(self.counts[what] for what in LISTED if what != "new")


def corpora(
    log: Log,
    names: Sequence[str],
    agent: str = "",
    size: int | None = None,
    refused: Callable[[str, StenologError], None] = lambda name, error: None,
) -> Iterator[Corpus]:
    """Yield the calls of conversations, only those of an agent if given, or a sample of so many of all.

    A conversation that cannot be read is refused. Raises `AgentNotFoundError` for an agent of no call.
    """
    agents: dict[str, None] = {}

    def read(names: Iterable[str]) -> Iterator[Corpus]:
        for name in names:
            try:
                entries = list(log[name].entries(strict=True))
            except StoredDataError as error:
                refused(name, error)
                continue
            made = cases(entries)
            agents.update(dict.fromkeys(case.lane.agent for case in made))
            yield Corpus(log[name], entries, [case for case in made if _is_of(case, agent)])

    if size is None:
        yield from read(names)
        _check_agent(agent, agents)
        return
    kept: dict[str, list[Case]] = {}
    for case in sample([case for corpus in read(names) for case in corpus.cases], size):
        kept.setdefault(case.conversation, []).append(case)
    _check_agent(agent, agents)
    known = {name: {case.position for case in some} for name, some in kept.items()}
    for corpus in read([name for name in names if name in known]):
        chosen = known[corpus.conversation.name]
        yield corpus._replace(cases=[case for case in corpus.cases if case.position in chosen])


def _is_of(case: Case, agent: str) -> bool:
    return agent in ("", case.lane.address, case.lane.agent)


def _check_agent(agent: str, known: Iterable[str]) -> None:
    if agent and agent.partition("/")[0] not in known:
        raise AgentNotFoundError(no_agent(agent, [*known]))


def results(
    found: Iterable[Tried], change: str, conversations: Iterable[str] = (), unproved: int = 0
) -> Results:
    """Return what became of all calls."""
    counts: Counter[What] = Counter()
    listed, before, after = list[Tried](), 0, 0
    named = dict.fromkeys(conversations)
    for one in found:
        counts[one.what] += 1
        named[one.case.conversation] = None
        before, after = before + one.tokens[0], after + one.tokens[1]
        if one.what != "same":
            listed.append(one)
    ordered = sorted(listed, key=lambda one: LISTED.index(one.what))
    return Results(change, tuple(named), counts, tuple(ordered), unproved, (before, after))


def corpus_of(conversation: Conversation, agent: str = "") -> Corpus:
    """Return the calls of one conversation. Raises as `corpora`, and `StoredDataError`."""

    def refuse(_: str, error: StenologError) -> None:
        raise error

    (corpus,) = corpora(conversation.log, [conversation.name], agent, refused=refuse)
    return corpus


def means_of(log: Log) -> Here:
    """Return what requests of a log are built with."""
    return Here(blobs=log.blobs, counters=COUNTERS)


def results_of(corpus: Corpus, change: Change) -> Results:
    """Return what became of the calls of one conversation. Raises as `tried`."""
    found = tried(corpus.entries, corpus.cases, change, means_of(corpus.conversation.log))
    return results(found, change.in_words, [corpus.conversation.name], unproved_of(corpus, change))


def unproved_of(corpus: Corpus, change: Change) -> int:
    """Return the number of calls that are not tried, since nothing says what they were sent."""
    return sum(case.receipt is None for case in corpus.cases) if change.is_none else 0


def results_data(found: Results, file: str = "") -> dict[str, Any]:
    """Return the results as JSON; `file` is where their digests are."""
    return {
        "change": found.change,
        "calls": found.calls,
        "same": found.counts["same"],
        **{what: [_tried_data(one) for one in found.listed if one.what == what] for what in LISTED},
        "unproved": found.unproved,
        "tokens": {"then": found.tokens[0], "now": found.tokens[1]},
        "file": file or None,
    }


def _tried_data(one: Tried) -> dict[str, Any]:
    case = one.case
    place = {"conversation": case.conversation, "lane": case.lane.address, "position": case.position}
    return {
        **place,
        "view": case.view,
        "api": case.api,
        "pointer": one.pointer,
        "expected": one.expected,
        "found": one.found,
        "tokens": {"then": one.tokens[0], "now": one.tokens[1]},
        "gone": one.gone,
        "added": one.added,
    }


def effect_in_words(one: Tried) -> str:
    """Return what a change did to a request: tokens, and entries that only one of both shows."""
    tokens = "{:,} → {:,} tokens".format(*one.tokens) if one.tokens[0] != one.tokens[1] else ""
    gone = f"without {runs_in_words(one.gone)}" if one.gone else ""
    added = f"with {runs_in_words(one.added)}" if one.added else ""
    return ", ".join(filter(None, (tokens, gone, added)))


def results_in_words(found: Results) -> str:
    """Return the results in a line."""
    parts = [f"{found.counts[what]:,} {what}" for what in ("same", *LISTED) if found.counts[what]]
    if found.counts["same"] == found.calls:
        parts = [] if not found.calls else ["the same requests"]
    then, now = found.tokens
    if then != now:
        percent = f" ({(now - then) / then:+.0%})" if then and abs(now - then) * 100 > then else ""
        parts.append(f"{then:,} → {now:,} tokens{percent}")
    return f"{counted(found.calls, 'call')}: {', '.join(parts)}" if parts else counted(found.calls, "call")


def only_agent_of(corpus: Corpus) -> str:
    """Return the agent of the calls. Raises `CallerError` if there are several."""
    agents = [*dict.fromkeys(case.lane.agent for case in corpus.cases)]
    if len(agents) > 1:
        name = corpus.conversation.name
        raise CallerError(f"{name}: expected --agent with a card, one of {', '.join(agents)}; found none")
    return agents[0] if agents else ""
