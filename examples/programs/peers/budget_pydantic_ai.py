"""A history that is cut by its tokens, estimated by hand; a tool's result may lose its call."""

from pathlib import Path

from pydantic_ai import Agent, ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.capabilities import ProcessHistory


def cut(messages: list[ModelMessage]) -> list[ModelMessage]:
    first, size, rest = messages[:1], 0, list[ModelMessage]()
    for message in reversed(messages[1:]):
        size += len(ModelMessagesTypeAdapter.dump_json([message])) // 4
        if size > 2_000:
            break
        rest.insert(0, message)
    return first + rest


agent = Agent("openai:gpt-5.2", capabilities=[ProcessHistory(cut)])
file = Path("chat.json")
while message := input("> "):
    history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []
    result = agent.run_sync(message, message_history=history)
    file.write_bytes(result.all_messages_json())
    print(result.output)
