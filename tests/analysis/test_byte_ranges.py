"""The byte ranges of a request tile the bytes that are sent, for every API and every history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stenolog import AgentCard, ModeSwitch, Tool, UserMessage
from stenolog.errors import InvalidEventError, PositionNotFoundError, StenologError
from stenolog.projections.analysis.byte_ranges import FRAME, byte_ranges, sent_request
from stenolog.projections.analysis.cache.prompts import rules_by_api
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.caching import Block
from stenolog.projections.formats.readable import texts
from stenolog.projections.messages.body_digest import PROMPT
from stenolog.projections.requests import Request, build, every_request, lanes
from stenolog.projections.requests.incremental.series import windows
from stenolog.projections.requests.incremental.session import RequestSession
from stenolog.projections.requests.sendable import takes_part
from stenolog.projections.requests.transport import Transport
from stenolog.testing import entries
from tests.random_cases import seeds
from tests.requests.corpus import BUNDLED, TRANSCRIPTS, conversations, files
from tests.requests.histories import BLOBS, history
from tests.requests.sessions import session_log

APIS = ("openai-chat", "openai-responses", "anthropic", "gemini", "plain")
ADDED = Transport("POST", "/x", {"stream": True})
STYLES = (ADDED, ADDED._replace(style="spaced"), ADDED._replace(remove=("model",)))
UNSENT = Transport()
TEXTS = tuple(Transport("stdin", style=style, after="\n<<<end>>>\n") for style in ("text", "string", "lines"))


def tiled(request: Request, transport: Transport, last: int | None = None) -> None:
    """Assert that ranges have no gap and no overlap, and are the JSON values at their pointers.

    With `last` only so many of the values are compared, those at the end.
    """
    found, sent = byte_ranges(request, transport), transport.render(request.body)
    assert [one.first for one in found] == [0, *(one.end for one in found[:-1])]
    assert found[-1].end == len(sent)
    assert all(one.first < one.end for one in found)
    assert {part for one in found for part in one.parts} == {*range(len(request.parts))}
    if transport.style not in ("compact", "spaced"):
        return
    body = transport.patched(request.body)
    for one in found[-last:] if last else found:
        if one.source != FRAME:
            value: object = body
            for step in one.pointer.split("/")[1:]:
                value = value[int(step)] if isinstance(value, list) else value[step]  # type: ignore[index]
            assert json.loads(sent[one.first : one.end]) == json.loads(json.dumps(value)), one


@seeds(12, slow=120)
@pytest.mark.parametrize("api", APIS)
def test_the_ranges_of_the_parts_tile_the_bytes_sent(api: str, seeds: range) -> None:
    for seed in seeds:
        log = history(seed) if seed % 2 else session_log(seed, 4 + seed // 4)
        for lane in lanes(log):
            try:
                request = build(log, lane.agent, task=lane.task, api=api, blobs=BLOBS)
            except StenologError:
                continue
            for transport in STYLES + (TEXTS if api == "plain" else ()):
                tiled(request, transport)


def test_a_request_that_was_never_sent_has_the_ranges_of_its_bytes() -> None:
    request = build(session_log(3, 24), "coder", api="anthropic")

    assert byte_ranges(request) == byte_ranges(request, UNSENT)
    assert byte_ranges(request)[-1].end == len(request.bytes)


def every_prefix_tiled(api: str, file: Path) -> int:
    """Check the ranges of every prefix of a file's conversations; return the number of requests."""
    transports = (UNSENT, TEXTS[0]) if api == "plain" else (UNSENT,)
    built = 0
    for talk in conversations(file):
        for lane in lanes(talk.entries):
            session: RequestSession | None = None
            for window in windows(talk.entries, lane, None, blobs=talk.blobs):
                if window.state.blocked is None and takes_part(window):
                    if session is None or session.window is not window:
                        session = RequestSession(window, api, talk.blobs)
                    request, is_whole = session.request(), window.position == len(talk.entries)
                    built += 1
                    for transport in transports:
                        tiled(request, transport, last=None if is_whole else 6)
    return built


@pytest.mark.parametrize("api", APIS)
def test_the_ranges_tile_the_bytes_of_every_prefix_of_the_bundled_sessions(api: str) -> None:
    assert sum(every_prefix_tiled(api, file) for file in BUNDLED) > 50


@pytest.mark.slow
@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the transcripts are not beside this checkout")
@pytest.mark.parametrize(
    ("api", "file"),
    [
        pytest.param(
            api, file, id=f"{api}-{file.name}", marks=pytest.mark.nightly if (n + m) % len(APIS) else ()
        )
        for n, file in enumerate(files() if TRANSCRIPTS.is_dir() else [])
        for m, api in enumerate(APIS)
    ],
)
def test_the_ranges_tile_the_bytes_of_every_prefix_of_a_real_session(api: str, file: Path) -> None:
    every_prefix_tiled(api, file)


@pytest.mark.parametrize("api", APIS)
def test_every_part_has_bytes(api: str) -> None:
    request = build(session_log(3, 24), "coder", api=api)
    transport = TEXTS[0] if api == "plain" else ADDED
    owned = {part for one in byte_ranges(request, transport) for part in one.parts}
    assert owned == {*range(len(request.parts))}


def test_only_an_entry_with_a_receipt_was_sent() -> None:
    log = entries(UserMessage("Hello"))

    with pytest.raises(InvalidEventError, match="with a receipt at 1"):
        sent_request(log, 1)
    for position in (0, 2):
        with pytest.raises(PositionNotFoundError, match="from 1 to 1"):
            sent_request(log, position)


# A prompt in blocks: all that a model reads is in one of them, in the order in which its provider reads.


ORDER = {
    "anthropic": ("tools", "setting", "system", "setting", "messages"),
    "gemini": ("setting", "system", "tools", "setting", "messages"),
    "openai-chat": ("setting", "system", "tools", "messages"),
    "openai-responses": ("setting", "system", "tools", "messages"),
    "plain": ("messages",),
}
DOCUMENTED = [api for api, format in FORMATS.items() if format.cache or format.messages == PROMPT]
"""The formats of which it is known in what order their providers read."""
UNREAD = frozenset(
    {
        "model", "max_tokens", "max_completion_tokens", "max_output_tokens", "temperature", "top_p", "stop",
        "stop_sequences", "store", "include", "tool_choice", "reasoning", "reasoning_effort", "effort",
        "responseMimeType", "stopSequences", "thinkingConfig",
    }
)  # fmt: skip
"""The keys of a body, and of its settings, that no model reads, or in no words of the prompt."""
SETTINGS = ("output_config", "generationConfig")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"loaves": {"type": "integer", "description": "How many"}},
}
CARD = AgentCard(
    model="m-1",
    persona="You bake.",
    tools=[Tool(name="look", description="Look about"), Tool(name="bake", description="Bake it")],
    parameters={"temperature": 0.5, "max_tokens": 50, "output": {"name": "loaves", "schema": SCHEMA}},
)


@cache
def sent(api: str) -> list[Request]:
    """Return requests of random histories, of agents with and without a card."""
    histories = [[entry.event for entry in history(seed, longest=20)] for seed in range(25)]
    cards = ModeSwitch(cards={"a": CARD, "b": CARD})
    logs = [log for events in histories for log in (entries(*events), entries(cards, *events))]
    series = (every_request(log, one.agent, task=one.task, api=api) for log in logs for one in lanes(log))
    return [[*requests][-1] for requests in series]


def split(request: Request) -> list[Block]:
    return rules_by_api(request.api.partition("@")[0]).split(request.body, request.messages_key)


def read(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model reads of a body."""
    found = {key: value for key, value in body.items() if key not in UNREAD}
    return found | {key: read(found[key]) for key in SETTINGS if key in found}


@pytest.mark.parametrize("api", DOCUMENTED)
def test_all_that_a_model_reads_is_in_one_block(api: str) -> None:
    for request in sent(api):
        values = [one.value for one in split(request) if one.section != "model"]
        if api == "plain":
            assert "\n\n".join(values) == request.body["prompt"]
        else:
            assert Counter(texts(read(request.body))) == Counter(texts(values)), request.body


@pytest.mark.parametrize("api", DOCUMENTED)
def test_blocks_stand_in_the_order_in_which_their_provider_reads(api: str) -> None:
    for request in sent(api):
        found = split(request)
        assert found[0].section == "model"
        places = iter(ORDER[api])
        sections = [one.section for one in found[1:]]
        assert all(one == last or one in places for last, one in zip(["", *sections], sections, strict=False))
        messages = [one.message for one in found if one.message >= 0]
        assert messages == sorted(messages)
        assert len({one.pointer for one in found}) == len(found)
