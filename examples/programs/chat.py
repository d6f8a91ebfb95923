"""A chat whose history is on disk."""

import stenolog

team = stenolog.Team([stenolog.Agent("guide", llm="openai:gpt-5.2", persona="Be brief.")])
chat = stenolog.open("chat.db")["chat"]
while message := input("> "):
    print(team.ask_sync(chat, message))
