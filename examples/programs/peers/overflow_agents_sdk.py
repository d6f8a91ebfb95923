"""A chat that grows beyond what its model takes: the provider leaves out messages in the middle."""

from agents import Agent, ModelSettings, Runner, SQLiteSession

agent = Agent("guide", model="gpt-5.2", model_settings=ModelSettings(truncation="auto"))
session = SQLiteSession("chat", "chat.db")
while message := input("> "):
    print(Runner.run_sync(agent, message, session=session).final_output)
