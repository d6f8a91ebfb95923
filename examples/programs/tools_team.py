"""A chat with a tool."""

import stenolog


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Rain in {city}"


team = stenolog.Team([stenolog.Agent("guide", llm="openai:gpt-5.2", tools=[weather])])
chat = stenolog.open("chat.db")["chat"]
while message := input("> "):
    print(team.ask_sync(chat, message))
