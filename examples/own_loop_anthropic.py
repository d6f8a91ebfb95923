"""A chat with a tool in a loop of your own, over the Anthropic SDK: killed and started again, it goes on."""

import anthropic

import stenolog
from stenolog.models import answer_from
from stenolog.tools import run_calls


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Rain in {city}"


client = anthropic.Anthropic()
chat = stenolog.open("chat.db")["chat"]
chat.join("guide", model="claude-opus-5", tools=[weather])
while True:
    if (request := chat.request("guide", api="anthropic")).sendable:
        chat.append(answer := answer_from(client.messages.create(**request.body), request))
        print(answer.text)
    elif not run_calls(chat, "guide", [weather]):
        chat.append(stenolog.UserMessage(input("> ")))
