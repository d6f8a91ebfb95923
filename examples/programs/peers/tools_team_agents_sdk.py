"""A chat with a tool."""

from agents import Agent, Runner, SQLiteSession, function_tool


@function_tool
def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Rain in {city}"


agent = Agent("guide", model="gpt-5.2", tools=[weather])
session = SQLiteSession("chat", "chat.db")
while message := input("> "):
    print(Runner.run_sync(agent, message, session=session).final_output)
