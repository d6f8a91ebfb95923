"""An agent that keeps facts: it is shown them, and the last 20 messages."""

import stenolog.tools
from stenolog.context import MemoriesAndRecent

tools = [stenolog.tools.remember]
agent = stenolog.Agent("guide", llm="openai:gpt-5.2", tools=tools, policy=MemoriesAndRecent(20))
chat = stenolog.open("chat.db")["chat"]
while message := input("> "):
    print(stenolog.Team([agent]).ask_sync(chat, message))
