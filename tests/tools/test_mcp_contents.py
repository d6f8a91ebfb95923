"""A picture or a file of an MCP server is given once, also where the structured content repeats it."""

from __future__ import annotations

from base64 import b64encode

from mcp_types import BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, TextContent

from stenolog.adapters.tools.base import Attachment
from stenolog.adapters.tools.mcp.contents import outcome_from

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 3_000
DATA = b64encode(PNG).decode()
BLOCK = ImageContent(data=DATA, mime_type="image/png")
REPEATED = {"content": [{"type": "image", "data": DATA}], "width": 3}
ONCE = '{"content":[{"type":"image","data":"given as media"}],"width":3}'


def test_a_picture_that_the_structured_content_repeats_is_given_once() -> None:
    outcome = outcome_from(CallToolResult(content=[BLOCK], structured_content=REPEATED))

    assert outcome.content == (Attachment(PNG, "image/png"), ONCE)


def test_neither_is_it_kept_twice_beside_words() -> None:
    words = TextContent(text="A cat.")
    outcome = outcome_from(CallToolResult(content=[words, BLOCK], structured_content=REPEATED))

    assert outcome.content == ("A cat.", Attachment(PNG, "image/png"))
    assert DATA not in str(outcome.meta)
    assert outcome.meta["mcp"]["structured"]["width"] == 3


def test_neither_is_a_file_that_the_structured_content_repeats_given_twice() -> None:
    file = BlobResourceContents(uri="demo://plan.pdf", mime_type="application/pdf", blob=DATA)
    repeated = {"content": [{"type": "resource", "resource": {"blob": DATA}}], "pages": 2}

    outcome = outcome_from(
        CallToolResult(content=[EmbeddedResource(resource=file)], structured_content=repeated)
    )

    once = '{"content":[{"type":"resource","resource":{"blob":"given as media"}}],"pages":2}'
    assert outcome.content == (Attachment(PNG, "application/pdf", "plan.pdf"), once)


def test_an_empty_text_stays_beside_a_picture_without_content() -> None:
    empty = ImageContent(data="", mime_type="image/png")

    outcome = outcome_from(CallToolResult(content=[empty], structured_content={"caption": ""}))

    assert outcome.content == (Attachment(b"", "image/png"), '{"caption":""}')
