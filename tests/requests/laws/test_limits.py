"""Limits of number and size that a provider has: a request beyond one is named, and is not sendable."""

from __future__ import annotations

import pytest

from stenolog import AgentCard, ModeSwitch, Tool, UserMessage
from stenolog.parts import ImagePart, TextPart
from stenolog.projections.formats import validate
from stenolog.projections.requests import build
from stenolog.projections.requests.builder import build_reference
from tests.requests.given import ASKED, log

SHA = "a" * 64


def broken(
    pictures: int, model: str = "claude-haiku-4-5", content: bytes = b"\x89PNG" + bytes(99)
) -> list[str]:
    """Return the laws that a request with so many pictures breaks, sent or not."""
    shown = UserMessage(parts=[TextPart(text="look"), ImagePart(media_type="image/png", blob=SHA)])
    talk = log(ModeSwitch(joins=["coder"], cards={"coder": AgentCard(model=model)}), *[shown] * pictures)
    made = build(talk, "coder", api="anthropic", blobs={SHA: content})

    assert made == build_reference(talk, "coder", api="anthropic", blobs={SHA: content})
    found = validate("anthropic", made.body)
    assert made.sendable is (found == [])
    return [violation.law for violation in found]


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
def test_openai_takes_128_tools(api: str) -> None:
    for number, laws in ((128, []), (129, ["tools-number"])):
        card = AgentCard(model="gpt-5", tools=[Tool(name=f"t{n}") for n in range(number)])
        made = build(log(ModeSwitch(joins=["coder"], cards={"coder": card}), ASKED), "coder", api=api)

        assert [violation.law for violation in validate(api, made.body)] == laws
        assert made.reason == ("129 tools, at most 128 (/tools)" if laws else "")
        assert made.sendable is (not laws)


def test_anthropic_takes_100_pictures_and_600_with_a_context_of_more_than_200k() -> None:
    assert (broken(100), broken(101)) == ([], ["pictures-and-bytes"])
    assert (broken(101, "claude-opus-5"), broken(601, "claude-opus-5")) == ([], ["pictures-and-bytes"])


def test_beyond_20_pictures_anthropic_takes_none_of_more_than_2_000_px_a_side() -> None:
    wide = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (2_001).to_bytes(4, "big") + (9).to_bytes(4, "big")

    assert (broken(20, content=wide), broken(21, content=wide)) == ([], ["pictures-and-bytes"] * 21)


def test_anthropic_takes_a_body_of_32_mb() -> None:
    content = bytes(3_900_000)

    assert (broken(6, content=content), broken(7, content=content)) == ([], ["pictures-and-bytes"])
