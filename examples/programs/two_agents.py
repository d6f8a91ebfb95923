"""Two agents: one hands on to the other by a tool."""

import stenolog

reviewer = stenolog.Agent("reviewer", llm="openai:gpt-5.2", persona="Review the code.")
coder = stenolog.Agent("coder", llm="openai:gpt-5.2", persona="Code, then hand on.", handoffs=[reviewer])
chat = stenolog.open("chat.db")["chat"]
print(stenolog.Team([coder, reviewer]).ask_sync(chat, "Write hello.py", to="coder"))
