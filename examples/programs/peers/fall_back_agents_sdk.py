"""A second model, if the first one fails; the message is then in the session twice."""

from agents import Agent, Runner, SQLiteSession
from openai import APIError

session = SQLiteSession("chat", "chat.db")
for model in ("gpt-5.2-pro", "gpt-5.2"):
    try:
        print(Runner.run_sync(Agent("guide", model=model), "Hello", session=session).final_output)
        break
    except APIError:
        continue
