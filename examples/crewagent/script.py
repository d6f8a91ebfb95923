"""The model, by script: it answers from what it is sent, so that it may be killed and asked again."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Any

from stenolog import ToolCall
from stenolog.errors import ModelError
from stenolog.models import ModelRequest, ModelResponse, ResponseDelta, Scripted

FOUND = (
    "One test of 200,001 fails, test_utc: the parser reads the text as local time, and the caller "
    "takes it for UTC. The zone is lost in parse(), as I thought."
)
CUT_AT = FOUND.index("takes")
"""How far the model comes before its line goes dead."""


def _call(name: str, arguments: str) -> ToolCall:
    return ToolCall(id=f"call-{name}-{len(arguments)}", name=name, arguments=arguments)


def _read(body: dict[str, Any]) -> ToolCall:
    """Read on where the preview of the large output says that the failure is."""
    preview = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "tool")
    found = re.search(r"begins at character (\d+)", preview), re.search(r'path="([^"]+)"', preview)
    where, path = (match[1] if match else "" for match in found)
    return _call("read_output", f'{{"path": "{path}", "offset": {where}, "limit": 55}}')


def _done(body: dict[str, Any]) -> str:
    """Return the work done, as far as it is shown, and a note if earlier messages were left out."""
    shown = [message["content"] or "" for message in body["messages"]]
    done = [
        words for said, words in {MENDED: "mended the parser", PROVED: "proved it"}.items() if said in shown
    ]
    cut = any("earlier messages were left out" in text for text in shown)
    return f"We {' and '.join(done)}." + " What came first was left out of what I am shown." * cut


MENDED, PROVED = "The parser takes a zone now.", "12 passed: it is mended."
READ, GO_ON = "Read the parser", "continue"
ANSWERS: dict[str, list[Any]] = {
    "Our date parser reads": ["At whatever turns text into a time: the zone is lost there."],
    "Why there?": ["Everything behind it works with times that know their zone."],
    READ: [
        ["I read it.", _call("read_file", '{"path": "dates.py"}')],
        _call("run_tests", '{"which": "all"}'),
        _read,
    ],
    "Begin: reproduce": [_call("run_tests", '{"which": "test_utc"}'), "It shows with a text in UTC."],
    "Begin: mend": [
        _call("write_file", '{"path": "dates.py", "text": "def parse(text, tz=UTC): ..."}'),
        MENDED,
    ],
    "Begin: prove": [_call("run_tests", '{"which": "test_dates.py"}'), PROVED],
    "What have we done?": [_done],
}
"""To the words that were said last: the answers, one for each tool result that came since."""


class Unsteady(Scripted):
    """A model whose line goes dead once, in mid-stream."""

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[ResponseDelta | ModelResponse, None]:
        """Yield the script's answer; the last piece of the findings comes only once it is asked for."""
        async for said in super().stream(prompt):
            if isinstance(said, ModelResponse) and breaks_off(prompt.body):
                raise ModelError("timeout", "no token for 60 s")
            yield said


def scripted() -> Scripted:
    """Return the model of the story."""
    return Unsteady(lambda prompt: answer(prompt.body), endless=True, pause=0.005)


def answer(body: dict[str, Any]) -> Any:
    """Return the answer to what was said last; what was found is told from where it was broken off."""
    words, results = _asked(body)
    turns = [*ANSWERS[words], _rest] if words == READ else ANSWERS[words]
    turn = turns[min(results, len(turns) - 1)]
    return turn(body) if callable(turn) else turn


def breaks_off(body: dict[str, Any]) -> bool:
    """Return whether the stream stops here: the findings are given, and no `continue` was sent."""
    words, results = _asked(body)
    return words == READ and results >= len(ANSWERS[READ]) and not _goes_on(body)


def _goes_on(body: dict[str, Any]) -> bool:
    return any(m["role"] == "user" and m["content"] == GO_ON for m in body["messages"])


def _rest(body: dict[str, Any]) -> str:
    """Return the findings that were not yet given, behind the last piece of them."""
    pieces = [m["content"] for m in body["messages"] if m["role"] == "assistant" and m["content"]]
    last = next((piece for piece in reversed(pieces) if piece in FOUND), "")
    return FOUND[FOUND.index(last) + len(last) : None if _goes_on(body) else CUT_AT]


def _asked(body: dict[str, Any]) -> tuple[str, int]:
    """Return the last message that the script answers, and the number of tool results since."""
    results = 0
    for message in reversed(body["messages"]):
        results += message["role"] == "tool"
        if message["content"] == GO_ON:
            return READ, len(ANSWERS[READ])
        for words in ANSWERS if message["role"] == "user" else ():
            if words in message["content"]:
                return words, results
    raise ModelError("invalid_request", "nobody has said anything that the script knows")
