"""Two agents: one hands over to the other by naming it."""

import stenolog

coder = stenolog.Agent("coder", llm="openai:gpt-5.2", persona="Code, then ask @reviewer.")
reviewer = stenolog.Agent("reviewer", llm="openai:gpt-5.2", persona="Review the code.")
chat = stenolog.open("chat.db")["chat"]
print(stenolog.Team([coder, reviewer]).ask_sync(chat, "Write hello.py", to="coder"))
