"""Two models asked the same, and scored by a third."""

from pathlib import Path

from pydantic import BaseModel
from pydantic_ai import Agent


class Score(BaseModel):
    score: float


judge = Agent("openai:gpt-5.2", instructions="Score the answer from 0 to 1.", output_type=Score)
for model in ("openai:gpt-5.2", "openai:gpt-5-mini"):
    agent = Agent(model)
    for question in ("Where is Paris?", "Where is Rome?"):
        result = agent.run_sync(question)
        scored = judge.run_sync(f"{question}\n{result.output}")
        name = f"{model} {question}"
        Path(f"{name}.json").write_bytes(result.all_messages_json())
        Path(f"{name} score.json").write_bytes(scored.all_messages_json())
        print(model, result.output, scored.output.score)
