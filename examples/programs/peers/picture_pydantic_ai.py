"""A question about a picture, which is stored in the chat's JSON."""

from pathlib import Path

from pydantic_ai import Agent, BinaryContent, ModelMessagesTypeAdapter

agent = Agent("openai:gpt-5.2")
file = Path("chat.json")
history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []
picture = BinaryContent.from_path(Path("loaf.png"))
result = agent.run_sync(["What is this?", picture], message_history=history)
file.write_bytes(result.all_messages_json())
print(result.output)
