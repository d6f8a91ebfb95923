"""Contents that both versions of OpenHands' events share: words, pictures, reasoning, tools and tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stenolog.events import Tool
from stenolog.importers import (
    Blobs,
    Json,
    as_dict,
    as_int,
    as_list,
    as_str,
    openai_user_parts,
    read_tool,
)
from stenolog.parts import UserPart

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_KIND = re.compile(r"Tool(Definition)?$")


def user_parts(content: Json, blobs: Blobs) -> Iterator[UserPart]:
    """Yield the parts of a content: a text, or a list of texts and pictures."""
    for part in content if isinstance(content, list) else [content]:
        if urls := as_list(as_dict(part).get("image_urls")):
            yield from picture_parts(urls, blobs)
        elif part is not None:
            yield from openai_user_parts([part], blobs)


def picture_parts(urls: Sequence[Json], blobs: Blobs) -> Iterator[UserPart]:
    """Yield pictures, given by their URLs."""
    for url in urls:
        if isinstance(url, str):
            yield from openai_user_parts([{"type": "image_url", "image_url": {"url": url}}], blobs)


def texts(content: Json) -> str:
    """Return the words of a content."""
    if isinstance(content, str):
        return content
    return "".join(as_str(as_dict(part).get("text")) for part in as_list(content))


def tools_in(listed: Json) -> tuple[Tool, ...] | None:
    """Return the tools of a system prompt, each name once; None where none are listed."""
    found = {tool.name: tool for tool in map(_tool, map(as_dict, as_list(listed))) if tool.name}
    return tuple(found.values()) or None


def _tool(definition: dict[str, Any]) -> Tool:
    """Return a tool in OpenAI's form, or a definition of the SDK, which is named by its class."""
    described = as_dict(definition.get("mcp_tool")) or definition
    tool = read_tool(described)
    if tool.name:
        return tool
    kind = _KIND.sub("", as_str(definition.get("kind")))
    return read_tool({**described, "name": _WORD.sub("_", kind).lower() or as_str(definition.get("title"))})


COUNTED = (
    "prompt_tokens",
    "completion_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


class Meter:
    """Running totals of tokens and costs, as OpenHands keeps them, and the difference since an answer."""

    def __init__(self) -> None:
        self._total = dict.fromkeys(COUNTED, 0)
        self._seen = dict(self._total)
        self._cost = self._seen_cost = 0.0

    def note(self, metrics: Sequence[Mapping[str, Json]]) -> None:
        """Take in the totals of all models together."""
        counted = [as_dict(each.get("accumulated_token_usage")) for each in metrics]
        self._total = {name: sum(as_int(each.get(name)) for each in counted) for name in COUNTED}
        self._cost = sum(_number(each.get("accumulated_cost")) for each in metrics)

    def since(self) -> tuple[dict[str, int], float]:
        """Return the tokens and the dollars since the last call of this method."""
        counted = {name: max(self._total[name] - self._seen[name], 0) for name in COUNTED}
        cost = max(self._cost - self._seen_cost, 0.0)
        self._seen, self._seen_cost = dict(self._total), self._cost
        return counted, cost


def _number(value: Json) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e12 else 0.0
