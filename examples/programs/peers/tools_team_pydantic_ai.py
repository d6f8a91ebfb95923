"""A chat with a tool."""

from pathlib import Path

from pydantic_ai import Agent, ModelMessagesTypeAdapter


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Rain in {city}"


agent = Agent("openai:gpt-5.2", tools=[weather])
file = Path("chat.json")
while message := input("> "):
    history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []
    result = agent.run_sync(message, message_history=history)
    file.write_bytes(result.all_messages_json())
    print(result.output)
