"""A chat with a tool in a loop of your own, over the OpenAI SDK: killed and started again, it goes on."""

import openai

import stenolog
from stenolog.models import answer_from
from stenolog.tools import run_calls


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Rain in {city}"


client = openai.OpenAI()
chat = stenolog.open("chat.db")["chat"]
chat.join("guide", model="gpt-5.2", tools=[weather])
while True:
    if (request := chat.request("guide")).sendable:
        chat.append(answer := answer_from(client.chat.completions.create(**request.body), request))
        print(answer.text)
    elif not run_calls(chat, "guide", [weather]):
        chat.append(stenolog.UserMessage(input("> ")))
