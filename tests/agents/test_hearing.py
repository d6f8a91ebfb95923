"""What is heard does not depend on how the bytes arrive."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from stenolog.adapters.agents.answer_buffer import ResponseBuilder
from stenolog.adapters.agents.output_formats import OUTPUT_FORMATS
from stenolog.adapters.agents.output_parser import LinesParser, OutputParser, TextParser
from stenolog.models import ModelResponse, ResponseDelta

END = "<end>"
SCRAPS = ("a", "<en", "<end>", "d>", "\n", "\r\n", "\x1b[1m", "\x1b]0;t\x07", "\x1b", "é", "𝄞", "{", " ")
OUTPUT = st.lists(st.sampled_from(SCRAPS), max_size=12).map("".join)
CUTS = st.lists(st.integers(1, 5), max_size=40)


def heard(ear: OutputParser, output: bytes, cuts: list[int]) -> tuple[ModelResponse, bool, str]:
    """Return the answer, whether it has told its end, and all pieces as one."""
    for cut in cuts:
        ear.feed(output[:cut])
        output = output[cut:]
    ear.feed(output)
    if not ear.turn.ended:
        ear.close()
    return (
        ear.turn.answer,
        ear.turn.ended,
        "".join(piece.text for piece in ear.turn.pieces() if isinstance(piece, ResponseDelta)),
    )


@given(OUTPUT, CUTS)
def test_text_is_heard_the_same_in_whatever_pieces_it_comes(output: str, cuts: list[int]) -> None:
    for end in ("", END):
        whole = heard(TextParser(ResponseBuilder("x"), end), output.encode(), [])

        assert heard(TextParser(ResponseBuilder("x"), end), output.encode(), cuts) == whole


@given(st.lists(st.text(max_size=6).filter(lambda text: "\x1b" not in text), max_size=6), CUTS)
def test_text_up_to_the_line_that_is_the_end_is_the_answer(lines: list[str], cuts: list[int]) -> None:
    said = "\n".join(lines)
    before = f"{said}\n" if said else ""

    found, ended, _ = heard(TextParser(ResponseBuilder("x"), END), f"{before}{END}\nand more".encode(), cuts)

    expected = said.rstrip("\r\n")
    assert (ended, [part.text for part in found.parts if part.type == "text"]) == (
        True,
        [expected] if expected.strip() else [],
    )


@given(st.lists(st.text(max_size=6), max_size=6), CUTS)
def test_json_lines_are_heard_the_same_in_whatever_pieces_they_come(
    texts: list[str], cuts: list[int]
) -> None:
    lines = [json.dumps({"type": "text", "text": text}, ensure_ascii=False) for text in texts]
    output = "\n".join([*lines, "noise", '{"type": "result"}', "noise"]).encode("utf-8", "replace")

    found, ended, said = heard(LinesParser(ResponseBuilder("x"), OUTPUT_FORMATS["jsonl"].read), output, cuts)

    assert (ended, said) == (True, "".join(texts))
    assert [part.text for part in found.parts if part.type == "text"] == ([said] if said.strip() else [])
