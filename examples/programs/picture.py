"""A question about a picture, which is stored once beside the chat."""

from pathlib import Path

import stenolog

team = stenolog.Team([stenolog.Agent("guide", llm="openai:gpt-5.2")])
print(team.ask_sync(stenolog.open("chat.db")["chat"], ["What is this?", Path("loaf.png")]))
