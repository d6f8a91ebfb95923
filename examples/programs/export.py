"""A conversation for another program: as OpenAI messages, or whole and byte for byte."""

import stenolog

chat = stenolog.open("chat.db")["chat"]
print(chat.export("openai", agent="guide"))
print(chat.export("jsonl").splitlines()[0])
