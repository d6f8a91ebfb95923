"""A hand-off with a payload: billing answers from then on, also after a restart."""

from pydantic import BaseModel

import stenolog
from stenolog.engine import ByHandoff, Handoff


class Refund(BaseModel):
    order: str
    euros: int


billing = stenolog.Agent("billing", llm="openai:gpt-5.2")
desk = stenolog.Agent("desk", llm="openai:gpt-5.2", handoffs=[Handoff(billing, "For refunds.", Refund)])
team = stenolog.Team([desk, billing], turns=ByHandoff("desk"))
chat = stenolog.open("chat.db")["chat"]
while message := input("> "):
    print(team.ask_sync(chat, message))
