"""Files of digests: `retry --output` and `--against`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece
from stenolog.apps.cli.terminal import STDOUT, whole_or_not_at_all
from stenolog.domain.errors import InvalidEventError
from stenolog.projections.analysis.retry import Case, Change, Here, Team, Tried, digests, retried
from stenolog.projections.requests import Request

if TYPE_CHECKING:
    from stenolog.apps.views.retries import Corpus


class Requests:
    """The requests of all calls under a change, in the order of their places; `unbuilt` ones are left out."""

    def __init__(
        self,
        corpora: Iterable[Corpus],
        changes: Callable[[Corpus], tuple[Change, Team | None]],
        means: Here,
    ) -> None:
        self._corpora, self._changes, self._means = corpora, changes, means
        self.conversations: list[str] = []
        self.unbuilt: list[Tried] = []

    def __iter__(self) -> Iterator[tuple[Case, Request]]:
        for corpus in self._corpora:
            self.conversations.append(corpus.conversation.name)
            change, _ = self._changes(corpus)
            built = retried(corpus.cases, corpus.entries, change, self._means)
            for one in sorted(built, key=lambda one: digests.place_of(one.case)):
                if one.now is None:
                    self.unbuilt.append(Tried(one.case, "unbuilt", found=one.why))
                else:
                    yield one.case, one.now


def answer(requests: Requests, change: Change, out: Path | None, against: Path | None) -> CommandResult:
    """Write the digests of requests, or compare them with a file, or both."""
    from stenolog.apps.cli.draw.retry import results_answer
    from stenolog.apps.views.retries import results

    head = digests.header(change)
    if against is None and out == STDOUT:
        return _streamed(requests, head)
    new = _written(requests, head, out) if out is not None else iter(requests)
    if against is None:
        found = [Tried(case, "same") for case, _ in new]
    else:
        with against.open(encoding="utf-8", errors="replace") as older, _naming(against):
            then = digests.read_header(older.readline())
            if then.change != change.in_words:
                theirs, ours = then.change or "none", change.in_words or "none"
                raise InvalidEventError(f"expected the change of the file ({theirs}), found {ours}")
            found = list(digests.against(digests.read(older), new))
    made = results([*found, *requests.unbuilt], change.in_words, requests.conversations)
    return results_answer(made, "" if out is None else str(out))


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    try:
        yield
    except InvalidEventError as error:
        raise InvalidEventError(f"{file}: {error}") from None


def _written(
    requests: Iterable[tuple[Case, Request]], head: digests.Header, out: Path
) -> Iterator[tuple[Case, Request]]:
    with whole_or_not_at_all(out) as file:
        file.write(f"{digests.header_line(head)}\n")
        for case, request in requests:
            file.write(f"{digests.line(digests.digest_of(case, request))}\n")
            yield case, request


def _streamed(requests: Requests, head: digests.Header) -> CommandResult:
    made = [digests.digest_of(case, request) for case, request in requests]

    def data() -> Iterator[dict[str, Any]]:
        yield digests.header_data(head)
        yield from map(digests.data, made)

    def draw() -> Iterator[Piece]:
        yield digests.header_line(head)
        yield from map(digests.line, made)

    unbuilt = tuple(
        Diagnostic("error", "unbuilt", f"{one.case.conversation!r} at {one.case.position}: {one.found}")
        for one in requests.unbuilt
    )
    return CommandResult(data, draw, bool(unbuilt), unbuilt, streams=True, messages=unbuilt)
