"""An answer that is an object: checked, and an error if it does not fit."""

from agents import Agent, Runner, SQLiteSession
from pydantic import BaseModel


class City(BaseModel):
    name: str
    country: str


agent = Agent("guide", model="gpt-5.2", output_type=City)
session = SQLiteSession("chat", "chat.db")
print(Runner.run_sync(agent, "Where is the Eiffel Tower?", session=session).final_output.name)
