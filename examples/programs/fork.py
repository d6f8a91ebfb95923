"""Another try from the middle: a fork shares what came before, and no entry is copied."""

import stenolog

chat = stenolog.open("chat.db")["chat"]
for persona in ("Be brief.", "Be a poet."):
    team = stenolog.Team([stenolog.Agent("guide", llm="openai:gpt-5.2", persona=persona)])
    print(team.ask_sync(chat.fork(), "Say it again"))
