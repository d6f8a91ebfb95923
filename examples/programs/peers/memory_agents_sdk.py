"""An agent that keeps facts in a file: it is shown them, and the last 20 items."""

from pathlib import Path

from agents import Agent, Runner, SessionSettings, SQLiteSession, function_tool

FACTS = Path("facts.txt")
FACTS.touch()


@function_tool
def remember(fact: str) -> str:
    """Keep a fact for later."""
    with FACTS.open("a") as file:
        file.write(f"{fact}\n")
    return "kept"


agent = Agent(
    "guide", model="gpt-5.2", tools=[remember], instructions=lambda _context, _agent: FACTS.read_text()
)
session = SQLiteSession("chat", "chat.db", session_settings=SessionSettings(limit=20))
while message := input("> "):
    print(Runner.run_sync(agent, message, session=session).final_output)
