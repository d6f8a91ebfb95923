"""Tools under names that providers refuse, in a loop of one's own."""

from __future__ import annotations

import pytest

import stenolog
from stenolog import ToolResult, UserMessage
from stenolog.events import Tool
from stenolog.models import answer_from, recording


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_tool_whose_name_no_provider_takes_is_called_by_its_own_name(
    is_streamed: bool,
) -> None:
    with stenolog.open(":memory:") as log:
        talk = log["x"]
        talk.append(UserMessage(text="Which files are here?"))
        tool = Tool(name="fs.read", description="Read a file.", parameters={"type": "object"})
        talk.join("coder", model="gpt-5.2", tools=[tool])
        request = talk.request("coder")
        [sent] = [each["function"]["name"] for each in request.body["tools"]]
        call = {"id": "c1", "type": "function", "function": {"name": sent, "arguments": "{}"}}
        if is_streamed:
            delta = {"role": "assistant", "tool_calls": [{"index": 0, **call}]}
            chunks = [
                {
                    "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}],
                }
            ]
            stream = recording(iter(chunks), request)
            assert len([*stream]) == 1
            answer = stream.answer()
        else:
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            answer = answer_from(
                {
                    "object": "chat.completion",
                    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
                },
                request,
            )

        talk.append(answer)
        assert [each.name for each in answer.tool_calls] == ["fs.read"]
        talk.append(ToolResult(call_id="c1", name="fs.read", text="export {}"))
        following = talk.request("coder")
        assert [each["function"]["name"] for each in following.body["tools"]] == [sent], "no stub beside it"
        assert following.body["messages"][-2]["tool_calls"][0]["function"]["name"] == sent
