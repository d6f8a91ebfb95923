"""A check of answers in code: the model is told what is wrong, and answers again."""

from pathlib import Path

from pydantic_ai import Agent, ModelMessagesTypeAdapter, ModelRetry

agent = Agent("openai:gpt-5.2")


@agent.output_validator
def no_greeting(answer: str) -> str:
    if "Hello" in answer:
        raise ModelRetry("Answer without a greeting.")
    return answer


file = Path("chat.json")
history = ModelMessagesTypeAdapter.validate_json(file.read_bytes()) if file.exists() else []
result = agent.run_sync("Hello", message_history=history)
file.write_bytes(result.all_messages_json())
print(result.output)
