"""A chat that grows beyond what its model takes: the older part is summarised, and it goes on."""

from pathlib import Path

from pydantic_ai import Agent, ModelMessagesTypeAdapter
from pydantic_ai.exceptions import ModelContextWindowExceededError

agent = Agent("openai:gpt-5.2")
file = Path("chat.json")
while message := input("> "):
    history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []
    try:
        result = agent.run_sync(message, message_history=history)
    except ModelContextWindowExceededError:
        summary = agent.run_sync("Summarise what was said.", message_history=history)
        result = agent.run_sync(message, message_history=summary.new_messages())
    file.write_bytes(result.all_messages_json())
    print(result.output)
