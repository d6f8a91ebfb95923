"""An answer that is an object: checked, and asked again if it does not fit."""

from pydantic import BaseModel

import stenolog


class City(BaseModel):
    name: str
    country: str


team = stenolog.Team([stenolog.Agent("guide", llm="openai:gpt-5.2", output=City)])
print(team.ask_sync(stenolog.open("chat.db")["chat"], "Where is the Eiffel Tower?").name)
