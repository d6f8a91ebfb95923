"""Events of ADK as they stand in files, with the names of their fields made the same.

ADK writes names in snake_case or, for its web client, in camelCase. Contents are brought into the form of
Gemini's API, which is camelCase and has the usual alphabet of base64.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from stenolog.importers import Json, as_dict, as_list, as_str

USER = "user"
_BREAK = re.compile(r"_([a-z0-9])")
_OBJECTS = frozenset(
    {
        "codeExecutionResult",
        "executableCode",
        "fileData",
        "functionCall",
        "functionResponse",
        "inlineData",
        "videoMetadata",
    }
)
"""The fields of a part whose own fields have names of ADK's; what tools get and give is left alone."""
_STANDARD = str.maketrans("-_", "+/")
ABOUT = (
    "branch",
    "citation_metadata",
    "custom_metadata",
    "grounding_metadata",
    "output",
    "artifact_delta",
    "escalate",
    "route",
    "state_delta",
    "transfer_reason",
    "transfer_to_agent",
)
"""The facts about an event that are kept in its `meta`."""


class AdkEvent(NamedTuple):
    """One event. `key` is its entry's id, and `fields` are its fields as they are written in the file."""

    key: str
    id: str
    author: str
    invocation: str
    fields: dict[str, Any]

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts of the content, or of what was transcribed of speech."""
        return parts_of(self.get("content")) or [
            {"text": text}
            for name in ("input_transcription", "output_transcription")
            if (text := as_str(as_dict(self.get(name)).get("text")))
        ]

    @property
    def is_input(self) -> bool:
        """True if a person is the author."""
        return self.author == USER

    @property
    def is_partial(self) -> bool:
        """True for a fragment of an answer that streams; ADK writes the whole behind it."""
        return self.get("partial") is True or as_dict(self.fields.get("options")).get("partial") is True

    @property
    def actions(self) -> dict[str, Any]:
        """The actions; the first releases called them options."""
        return as_dict(self.get("actions")) or as_dict(self.get("options"))

    def get(self, name: str) -> Json:
        """Return a field by its name in snake_case; None if it is missing."""
        return field(self.fields, name)

    def about(self) -> dict[str, Any]:
        """Return the facts that are no words: the invocation, and the actions that change something."""
        actions = self.actions
        found = {name: self.get(name) or field(actions, name) for name in ABOUT}
        found["state_delta"] = found["state_delta"] or actions.get("update_context")
        found["invocation"] = self.invocation
        return {name: value for name, value in found.items() if value}


def field(value: dict[str, Any], name: str) -> Json:
    """Return a field by its name in snake_case, in either spelling; None if it is missing."""
    return value.get(name) if value.get(name) is not None else value.get(camel_case(name))


def camel_case(name: str) -> str:
    """Return a name of snake_case in camelCase."""
    return _BREAK.sub(lambda found: found[1].upper(), name)


def parts_of(content: Json) -> list[dict[str, Any]]:
    """Return the parts of a content that say something, in the form of Gemini's API."""
    raw = as_list(as_dict(content).get("parts")) if isinstance(content, dict) else as_list(content)
    return [part for each in raw if (part := gemini_part(as_dict(each)))]


def gemini_part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part in the form of Gemini's API; empty if no field of it has a value."""
    return dict(_part_fields(part))


def _part_fields(part: dict[str, Any]) -> Iterator[tuple[str, Json]]:
    for name, value in part.items():
        key = camel_case(name)
        if value is None or (key == "thought" and not value):
            continue
        if key in _OBJECTS and isinstance(value, dict):
            value = {camel_case(inner): each for inner, each in value.items() if each is not None}
            if isinstance(value.get("data"), str):
                value["data"] = standard_base64(value["data"])
            if key == "functionResponse" and isinstance(value.get("parts"), list):
                value["parts"] = [gemini_part(as_dict(each)) for each in value["parts"]]
        elif key == "thoughtSignature":
            value = standard_base64(as_str(value))
        yield key, value


def standard_base64(text: str) -> str:
    """Return base64 in the usual alphabet; ADK writes that of URLs."""
    text = text.translate(_STANDARD)
    return text + "=" * (-len(text) % 4)
