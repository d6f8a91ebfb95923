"""A second model, if the first one fails."""

import stenolog

team = stenolog.Team([stenolog.Agent("guide", llm=["openai:gpt-5.2-pro", "openai:gpt-5.2"])])
print(team.ask_sync(stenolog.open("chat.db")["chat"], "Hello"))
