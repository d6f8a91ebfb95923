"""What holds for the answers of every model, through its real SDK from a server that speaks its API."""

from __future__ import annotations

from dataclasses import replace

from stenolog import TextPart, ToolCall
from stenolog.models import ResponseDelta
from stenolog.projections.messages.body_digest import compact
from tests.llms.api import Api
from tests.llms.apis import CALLS, every
from tests.llms.listening import ask, streamed
from tests.llms.server import Reply, Server

pytestmark = every


def test_an_answer_streams_in_pieces_and_comes_whole_at_the_end(server: Server, api: Api) -> None:
    answer = api.answer(TextPart(text="Hello there, it's me."))
    server.add(Reply(api.frames(answer)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert [piece.text for piece in said] == ["Hello", " ther", "e, it", "'s me", "."]
    assert {piece.part for piece in said} == {0}


def test_parallel_calls_keep_their_raw_arguments(server: Server, api: Api) -> None:
    answer = api.answer(TextPart(text="Two things."), *CALLS)
    server.add(Reply(api.frames(answer)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert streamed(said) == [
        ResponseDelta(0, "text", "Two things."),
        ResponseDelta(1, "tool_call", '{"cmd":"ls -l"}', "c1", "shell"),
        ResponseDelta(2, "tool_call", "{}", "c2", "shell"),
    ]


def test_calls_of_one_id_stay_calls_of_their_own(server: Server, api: Api) -> None:
    answer = api.answer(CALLS[0], replace(CALLS[1], id="c1"), CALLS[0])
    server.add(Reply(api.frames(answer)))

    assert ask(api.at(server)).answer == answer


def test_arguments_of_10_mb_come_whole(server: Server, api: Api) -> None:
    arguments = compact({"cmd": "x" * 10_000_000})
    answer = api.answer(ToolCall(id="c1", name="shell", arguments=arguments))
    server.add(Reply(api.frames(answer, 100_000)))

    said, whole = ask(api.at(server))

    assert whole == answer
    assert "".join(piece.text for piece in said) == arguments


def test_a_character_cut_in_two_is_one_again_and_half_a_character_is_marked(server: Server, api: Api) -> None:
    answer = api.answer(TextPart(text="so \ud83d\ude00 \ud83d!"), ToolCall(id="c\udc00", name="shell"))
    server.add(Reply(api.frames(answer, 1)))

    said, whole = ask(api.at(server))

    assert whole.parts == (
        TextPart(text="so \N{GRINNING FACE} \ufffd!"),
        ToolCall(id="c\ufffd", name="shell"),
    )
    assert streamed(said)[0].text == "so \N{GRINNING FACE} \ufffd!"
