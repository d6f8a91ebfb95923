"""A chat with a tool in a loop of your own, over the OpenAI SDK: killed and started again, it goes on."""

import contextlib

import openai

import stenolog


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"Rain in {city}"


ask = openai.OpenAI().chat.completions.create
chat = stenolog.open("chat.db")["chat"]
chat.join("guide", model="gpt-5.2", tools=[weather])
with contextlib.suppress(EOFError, KeyboardInterrupt):  # Ctrl-D and Ctrl-C end it
    while True:
        if (request := chat.request("guide")).sendable:
            chat.append(answer := stenolog.models.answer_from(ask(**request.body), request))
            print(answer.text or [call.name for call in answer.tool_calls])
        elif not stenolog.tools.run_calls(chat, "guide", [weather]):
            chat.append(stenolog.UserMessage(input(f"{request.obstacle}\n> ")))
