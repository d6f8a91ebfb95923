"""A hand-off with a payload: billing answers from then on, until a restart."""

from agents import Agent, Runner, SQLiteSession, handoff
from pydantic import BaseModel


class Refund(BaseModel):
    order: str
    euros: int


billing = Agent("billing", model="gpt-5.2")
refunds = handoff(
    billing,
    tool_description_override="For refunds.",
    input_type=Refund,
    on_handoff=lambda _context, _refund: None,
)
agent = Agent("desk", model="gpt-5.2", handoffs=[refunds])
session = SQLiteSession("chat", "chat.db")
while message := input("> "):
    result = Runner.run_sync(agent, message, session=session)
    agent = result.last_agent
    print(result.final_output)
