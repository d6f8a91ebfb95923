"""A request that never grows beyond 2,000 tokens, with the goal always in it."""

import stenolog
from stenolog.context import Budget, Pins

policy = Budget(2_000) | Pins(positions=[2])
team = stenolog.Team([stenolog.Agent("guide", llm="openai:gpt-5.2", policy=policy)])
chat = stenolog.open("chat.db")["chat"]
while message := input("> "):
    print(team.ask_sync(chat, message))
print(chat.request("guide").size.tokens, "tokens;", len(chat.request("guide").omissions), "omissions")
