"""The real transcripts beside the project, imported, with every request that they could have led to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import stenolog
from stenolog import AssistantMessage, Entry, Event, ModeSwitch, Request, ToolCall, ToolResult, UserMessage
from stenolog.domain.policy import PolicyLike
from stenolog.errors import UnknownFormatError
from stenolog.importers import import_file
from stenolog.projections.requests.choosing import lanes
from stenolog.projections.requests.incremental.series import from_window, windows
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.sendable import takes_part
from tests.requests.histories import START
from tests.requests.judging import MODELS, SHARED

TRANSCRIPTS = SHARED / "transcripts"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
BUNDLED = sorted(path for path in EXAMPLES.iterdir() if path.suffix in (".json", ".jsonl"))
"""The transcripts that the package brings along."""
DAMAGED = SHARED / "judges" / "damaged_histories.json"
THOROUGH = ("claude_code", "claude_code_fixtures", "codex", "tau_bench")
"""The folders whose files must import wherever they hold a conversation."""


class Talk(NamedTuple):
    """One imported conversation: the file it is from, its entries, and the blobs they name."""

    file: Path
    name: str
    entries: list[Entry]
    blobs: Mapping[str, bytes]


def files(*folders: str) -> list[Path]:
    """Return the data files in those folders of the corpus, or in all."""
    found = (path for path in TRANSCRIPTS.rglob("*") if path.is_file() and path.suffix != ".md")
    return sorted(path for path in found if not folders or path.relative_to(TRANSCRIPTS).parts[0] in folders)


@cache
def conversations(file: Path) -> tuple[Talk, ...]:
    """Return the conversations of a file, forks included; none where it holds none."""
    with stenolog.open(":memory:") as log:
        try:
            import_file(log, file)
        except UnknownFormatError:
            return ()
        blobs = dict(log.blobs)
        return tuple(Talk(file, name, list(log[name].entries()), blobs) for name in log.names(archived=True))


def damaged() -> Iterator[Talk]:
    """Yield the twelve histories as programs really leave them behind; the agent is called `agent`."""
    for name, told in json.loads(DAMAGED.read_text()).items():
        events = [ModeSwitch(mode="chat"), *map(_event, told)]
        entries = [Entry(name, i, f"e{i}", START, "", event) for i, event in enumerate(events, 1)]
        yield Talk(DAMAGED, name, entries, {})


def _event(fields: dict[str, Any]) -> Event:
    rest = {name: value for name, value in fields.items() if name != "event"}
    match fields["event"]:
        case "user_message":
            return UserMessage(**rest)
        case "tool_result":
            return ToolResult(**rest)
        case _:
            calls = [ToolCall(**call) for call in rest.pop("tool_calls")]
            return AssistantMessage(tool_calls=calls, **rest)


class Built(NamedTuple):
    """A request, the window that it was built from, and the API's name."""

    window: Window
    api: str
    request: Request


def requests(
    conversation: Talk, chosen: PolicyLike = None, apis: Iterable[str] = tuple(MODELS), *, every: int = 1
) -> Iterator[Built]:
    """Yield the requests of each lane on each API, at every position, or at every so manieth and the last."""
    for lane in lanes(conversation.entries):
        for window in windows(conversation.entries, lane, chosen, blobs=conversation.blobs):
            wanted = window.position % every == 0 or window.position == len(conversation.entries)
            if wanted and window.state.blocked is None and takes_part(window):
                for api in apis:
                    yield Built(window, api, from_window(window, api, conversation.blobs))
