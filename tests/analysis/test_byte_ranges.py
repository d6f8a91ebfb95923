"""The byte ranges of a request tile the bytes that are sent, for every API and every history."""

from __future__ import annotations

import json

import pytest

from stenolog.domain.errors import StenologError
from stenolog.projections.analysis.byte_ranges import FRAME, byte_ranges
from stenolog.projections.requests import Request, build, lanes
from stenolog.projections.requests.transport import Transport
from tests.requests.histories import BLOBS, history
from tests.requests.sessions import session_log

APIS = ("openai-chat", "openai-responses", "anthropic", "gemini", "plain")
ADDED = Transport("POST", "/x", {"stream": True})
STYLES = (ADDED, ADDED._replace(style="spaced"), ADDED._replace(remove=("model",)))
TEXTS = tuple(Transport("stdin", style=style, after="\n<<<end>>>\n") for style in ("text", "string", "lines"))


def tiled(request: Request, transport: Transport) -> None:
    """Assert that ranges have no gap and no overlap, and are the JSON values at their pointers."""
    found, sent = byte_ranges(request, transport), transport.render(request.body)
    assert [one.first for one in found] == [0, *(one.end for one in found[:-1])]
    assert found[-1].end == len(sent)
    assert all(one.first < one.end for one in found)
    if transport.style not in ("compact", "spaced"):
        return
    body = transport.patched(request.body)
    for one in found:
        if one.source != FRAME:
            value: object = body
            for step in one.pointer.split("/")[1:]:
                value = value[int(step)] if isinstance(value, list) else value[step]  # type: ignore[index]
            assert json.loads(sent[one.first : one.end]) == json.loads(json.dumps(value)), one


@pytest.mark.parametrize("api", APIS)
def test_the_ranges_of_the_parts_tile_the_bytes_sent(api: str) -> None:
    for seed in range(120):
        log = history(seed) if seed % 2 else session_log(seed, 4 + seed // 4)
        for lane in lanes(log):
            try:
                request = build(log, lane.agent, task=lane.task, api=api, blobs=BLOBS)
            except StenologError:
                continue
            for transport in STYLES + (TEXTS if api == "plain" else ()):
                tiled(request, transport)


@pytest.mark.parametrize("api", APIS)
def test_every_part_has_bytes(api: str) -> None:
    request = build(session_log(3, 24), "coder", api=api)
    transport = TEXTS[0] if api == "plain" else ADDED
    owned = {part for one in byte_ranges(request, transport) for part in one.parts}
    assert owned == {*range(len(request.parts))}
