"""What the importer of every format is held to.

Nothing that was said in a file is missing from its log. Every provider accepts every request that the log
could have led to. A second import adds nothing, and a file that was cut off goes on when the rest has come.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import stenolog
from stenolog import Log, ToolCall
from stenolog.domain.codec import REGISTRY
from stenolog.errors import UnknownFormatError
from stenolog.importers import import_file
from stenolog.parts import ProviderPart, ReasoningPart
from stenolog.projections.formats import validate
from stenolog.projections.requests.choosing import lanes
from stenolog.projections.requests.incremental.series import build
from stenolog.projections.requests.request import Request
from tests.requests.corpus import Talk, requests
from tests.requests.judging import HERE as JUDGES_HERE
from tests.requests.judging import MODELS, complaints

Said = tuple[str, str]
"""Who or what said it, and the words. A `call` is an id of a tool call."""


def held_in(log: Log) -> tuple[str, int]:
    """Return all words of a log, forks too, as one text, and the number of tool calls."""
    words: list[str] = []
    calls = 0
    for name in log.names(archived=True):
        for entry in log[name].entries():
            for part in getattr(entry.event, "parts", ()):
                words += [part.raw] if isinstance(part, ProviderPart) else []
                words += [getattr(part, "text", "")]
                if isinstance(part, ReasoningPart):
                    words += [part.signature, part.encrypted]
                if isinstance(part, ToolCall):
                    calls += 1
                    words += [part.name, part.arguments]
            words.append(REGISTRY.dump(entry.event)[1].decode())
    return "\n".join(words), calls


def held(path: Path) -> tuple[str, int]:
    """Return all words in the log of a file, as `held_in`."""
    with stenolog.open(":memory:") as log:
        import_file(log, path)
        return held_in(log)


def assert_nothing_lost(path: Path, said: Iterable[Said]) -> None:
    """Assert that all that was said, as a walk over the raw file found it, is in the file's log."""
    found = list(said)
    words, calls = held(path)

    assert found
    assert [(who, what[:200]) for who, what in found if what.strip() and not is_in(what, words)] == []
    assert calls >= len({what for who, what in found if who == "call"})


def is_in(what: str, words: str) -> bool:
    """Return whether a text is in the log: as it is, with unstorable signs replaced, or as JSON."""
    storable = what.encode("utf-8", "replace").decode()
    return what in words or storable in words or json.dumps(what, ensure_ascii=False)[1:-1] in words


def assert_again_adds_nothing(path: Path, format: str = "") -> None:
    """Assert that a second import of a file of that format adds no entry, and that nothing failed."""
    with stenolog.open(":memory:") as log:
        first, again = import_file(log, path), import_file(log, path)

    assert first.format.startswith(format)
    assert [one.failed for one in first.conversations if one.failed] == []
    assert sum(one.appended for one in first.conversations) > 0
    assert sum(one.appended for one in again.conversations) == 0


def assert_accepted(path: Path, *, every: int = 1) -> None:
    """Assert that each API accepts the request of each lane at each position, or at every so manieth.

    The laws decide, and the judges where they are beside the checkout.
    """
    with stenolog.open(":memory:") as log:
        import_file(log, path)
        talks = [Talk(path, name, list(log[name].entries()), log.blobs) for name in log.names(archived=True)]
        built = [each for talk in talks for each in requests(talk, apis=MODELS, every=every)]
        refused = [
            f"{each.window.lane.address} at {each.window.position} on {each.api}: {fault}"
            for each in built
            for fault in _refusals(each.api, each.request)
        ]

    assert built
    assert refused == []


def _refusals(api: str, request: Request) -> Iterator[str]:
    yield from map(str, validate(api, request.body))
    if JUDGES_HERE:
        yield from complaints(api, request.body)


def assert_goes_on(path: Path, folder: Path, cuts: Iterable[int]) -> None:
    """Assert that a file imported cut off, behind so many bytes, and then whole gives the same requests."""
    content, copy = path.read_bytes(), folder / path.name
    whole = digests_of(copy, content)

    for cut in cuts:
        assert digests_of(copy, content[:cut], content) == whole, f"cut behind byte {cut}"


def digests_of(path: Path, *versions: bytes) -> dict[tuple[str, str, str], str]:
    """Return the sha256 of each lane's last request, after importing a file in each of these versions."""
    return last_requests(path for content in versions if path.write_bytes(content) >= 0)


def last_requests(versions: Iterable[Path]) -> dict[tuple[str, str, str], str]:
    """Return the sha256 of each lane's last request, after importing each of the files."""
    with stenolog.open(":memory:") as log:
        for path in versions:
            with suppress(UnknownFormatError):
                import_file(log, path)
        return digests(log)


def digests(log: Log) -> dict[tuple[str, str, str], str]:
    """Return the sha256 of the request of every lane of every conversation, on two APIs."""
    made = {}
    for name in log.names(archived=True):
        entries = list(log[name].entries())
        for lane in lanes(entries):
            for api in ("openai-chat", "anthropic"):
                request = build(entries, lane.agent, task=lane.task, api=api, blobs=log.blobs)
                made[name, lane.address, api] = request.sha256
    return made
