"""A chat that grows beyond what its model takes: the older part is summarised, and it goes on."""

import stenolog.engine

guide = stenolog.Agent("guide", llm="openai:gpt-5.2", summary=stenolog.engine.AutoSummary())
chat = stenolog.open("chat.db")["chat"]
while message := input("> "):
    print(stenolog.Team([guide]).ask_sync(chat, message))
