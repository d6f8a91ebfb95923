"""A chat whose history is on disk."""

from agents import Agent, Runner, SQLiteSession

agent = Agent("guide", model="gpt-5.2", instructions="Be brief.")
session = SQLiteSession("chat", "chat.db")
while message := input("> "):
    print(Runner.run_sync(agent, message, session=session).final_output)
