"""Formats without an importer, recognised by keys to be refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from stenolog.adapters.importers.door.json_lines import Json
from stenolog.projections.messages.json_fields import as_dict
from stenolog.projections.programs import PROGRAMS, Foreign, shows

NO_IMPORTER = "which has no importer"
_DIGEST = re.compile(r"[0-9a-f]{64}")
Mark = Callable[[dict[str, Json]], bool]

OTHERS = (
    Foreign("a stream without a message", shows("type", "subtype", "session_id")),
    Foreign("an OpenHands run without events", shows("instance_id", "history")),
    Foreign("a file of SWE-bench predictions", shows("instance_id", "model_patch")),
    Foreign("a file of Multi-SWE-bench predictions", shows("org", "repo", "number", "fix_patch")),
    Foreign("an OpenHands state", shows("agent", "workspace")),
    Foreign("the metadata of an OpenHands conversation", shows("conversation_id", "selected_repository")),
    Foreign("a SWE-agent trajectory without a message", shows("trajectory", "history")),
    Foreign("the results of an ADK evaluation", shows("eval_set_result_id", "eval_case_results")),
    Foreign("a recording of API calls", shows("provider", "request", "response")),
    Foreign("an Antigravity session", shows("step_index", "source", "type")),
    Foreign("a Grok CLI session", shows("type", "model_fingerprint")),
    Foreign("the summary of a Grok CLI session", shows("session_summary", "num_chat_messages")),
)
_WHOLE: tuple[tuple[str, Mark], ...] = (
    ("a SWE-agent demonstration without a message", lambda record: record.keys() == {"history"}),
    ("the input of an ADK replay", lambda record: record.keys() == {"state", "queries"}),
    ("a file of SWE-bench predictions", lambda record: bool(record) and all(map(_is_patch, record.values()))),
    ("a recording of API calls", lambda record: all(map(_DIGEST.fullmatch, record)) and bool(record)),
)
"""Formats that are known by all that a record has."""


def _is_patch(value: Json) -> bool:
    return {"instance_id", "model_patch"} <= as_dict(value).keys()


def _foreign() -> Iterator[Foreign]:
    return chain(OTHERS, *(program.foreign for program in PROGRAMS.values()))


def other_stream(value: Json) -> str:
    """Return the title of a record's format without importer; empty if unknown."""
    return next((each.title for each in _foreign() if each.is_stream and each.signature.fits(value)), "")


def _name(record: dict[str, Json]) -> str:
    named = (each.title for each in _foreign() if not each.folder and each.signature.fits(record))
    whole = (title for title, is_one in _WHOLE if is_one(record))
    return other_stream(record) or next(chain(whole, named), "")


def described(document: Json, behind: Iterable[Json] = ()) -> str:
    """Describe a file that is no transcript: another format, or its keys.

    `behind` are the following records.
    """
    if isinstance(document, list):
        is_of_objects = bool(document) and isinstance(document[0], dict)
        inside = f", the first of them {described(document[0])}" if is_of_objects else ""
        return f"a list of {len(document)} items{inside}"
    if not isinstance(document, dict):
        return f"a JSON {type(document).__name__}"
    if piece := next((each for each in _foreign() if each.folder and each.signature.fits(document)), None):
        return f"{piece.title}, which is imported with the folder `{piece.folder}` that it is from"
    if name := next(filter(None, (_name(as_dict(record)) for record in (document, *behind))), ""):
        return f"{name}, {NO_IMPORTER}"
    keys = ", ".join(key[:80] for key in list(document)[:6])
    return f"an object with the keys {keys}" if keys else "an empty object"
