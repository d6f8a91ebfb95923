"""A picture of an MCP server is given once, also where the structured content repeats it."""

from __future__ import annotations

from base64 import b64encode

from mcp_types import CallToolResult, ImageContent, TextContent

from stenolog.adapters.tools.mcp.contents import outcome_from
from stenolog.adapters.tools.port import Media

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 3_000
DATA = b64encode(PNG).decode()
BLOCK = ImageContent(data=DATA, mime_type="image/png")
REPEATED = {"content": [{"type": "image", "data": DATA}], "width": 3}
ONCE = '{"content":[{"type":"image","data":"given as media"}],"width":3}'


def test_a_picture_that_the_structured_content_repeats_is_given_once() -> None:
    outcome = outcome_from(CallToolResult(content=[BLOCK], structured_content=REPEATED))

    assert outcome.content == (Media(PNG, "image/png"), ONCE)


def test_neither_is_it_kept_twice_beside_words() -> None:
    words = TextContent(text="A cat.")
    outcome = outcome_from(CallToolResult(content=[words, BLOCK], structured_content=REPEATED))

    assert outcome.content == ("A cat.", Media(PNG, "image/png"))
    assert DATA not in str(outcome.meta)
    assert outcome.meta["mcp"]["structured"]["width"] == 3
