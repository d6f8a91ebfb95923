"""Two models asked the same, and scored by a third."""

from agents import Agent, Runner, SQLiteSession
from pydantic import BaseModel


class Score(BaseModel):
    score: float


judge = Agent("judge", model="gpt-5.2", instructions="Score the answer from 0 to 1.", output_type=Score)
for model in ("gpt-5.2", "gpt-5-mini"):
    agent = Agent("guide", model=model)
    for question in ("Where is Paris?", "Where is Rome?"):
        name = f"{model} {question}"
        answer = Runner.run_sync(agent, question, session=SQLiteSession(name, "chat.db")).final_output
        session = SQLiteSession(f"{name} score", "chat.db")
        scored = Runner.run_sync(judge, f"{question}\n{answer}", session=session)
        print(model, answer, scored.final_output.score)
