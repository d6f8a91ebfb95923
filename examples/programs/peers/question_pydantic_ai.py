"""A tool that asks a person: the answer may come days later, to another process."""

from pathlib import Path

import pydantic_ai
from pydantic_ai import ModelMessagesTypeAdapter

agent = pydantic_ai.Agent("openai:gpt-5.2", output_type=[str, pydantic_ai.DeferredToolRequests])


@agent.tool_plain
def book(seats: int) -> str:
    """Book seats in a train."""
    raise pydantic_ai.CallDeferred


file = Path("chat.json")
history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []
result = agent.run_sync("Book seats", message_history=history)
if isinstance(result.output, pydantic_ai.DeferredToolRequests):
    results, train = pydantic_ai.DeferredToolResults(), input("Which train? ")
    for call in result.output.calls:
        results.calls[call.tool_call_id] = f"{call.args_as_dict()['seats']} seats at {train}"
    result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=results)
file.write_bytes(result.all_messages_json())
print(result.output)
