"""A second model, if the first one fails."""

from pathlib import Path

from pydantic_ai import Agent, ModelMessagesTypeAdapter
from pydantic_ai.models.fallback import FallbackModel

agent = Agent(FallbackModel("openai:gpt-5.2-pro", "openai:gpt-5.2"))
file = Path("chat.json")
history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []
result = agent.run_sync("Hello", message_history=history)
file.write_bytes(result.all_messages_json())
print(result.output)
