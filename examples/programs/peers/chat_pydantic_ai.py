"""A chat whose history is on disk."""

from pathlib import Path

from pydantic_ai import Agent, ModelMessagesTypeAdapter

agent = Agent("openai:gpt-5.2", instructions="Be brief.")
file = Path("chat.json")
while message := input("> "):
    history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []
    result = agent.run_sync(message, message_history=history)
    file.write_bytes(result.all_messages_json())
    print(result.output)
