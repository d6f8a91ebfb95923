"""An agent that keeps facts in a file: it is shown them, and the last messages."""

from pathlib import Path

from pydantic_ai import Agent, ModelMessagesTypeAdapter
from pydantic_ai.capabilities import ProcessHistory

FACTS = Path("facts.txt")
FACTS.touch()
recent = ProcessHistory(lambda messages: messages[-20:])
agent = Agent("openai:gpt-5.2", instructions=lambda: FACTS.read_text(), capabilities=[recent])


@agent.tool_plain
def remember(fact: str) -> str:
    """Keep a fact for later."""
    with FACTS.open("a") as file:
        file.write(f"{fact}\n")
    return "kept"


chat = Path("chat.json")
while message := input("> "):
    history = ModelMessagesTypeAdapter.validate_json(chat.read_bytes()) if chat.exists() else []
    result = agent.run_sync(message, message_history=history)
    chat.write_bytes(result.all_messages_json())
    print(result.output)
