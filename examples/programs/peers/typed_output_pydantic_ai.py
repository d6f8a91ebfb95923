"""An answer that is an object: checked, and asked again if it does not fit."""

from pathlib import Path

from pydantic import BaseModel
from pydantic_ai import Agent, ModelMessagesTypeAdapter


class City(BaseModel):
    name: str
    country: str


agent = Agent("openai:gpt-5.2", output_type=City)
file = Path("chat.json")
history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []
result = agent.run_sync("Where is the Eiffel Tower?", message_history=history)
file.write_bytes(result.all_messages_json())
print(result.output.name)
