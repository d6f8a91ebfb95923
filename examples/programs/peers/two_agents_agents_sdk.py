"""Two agents: one hands over to the other by a tool."""

from agents import Agent, Runner, SQLiteSession

reviewer = Agent("reviewer", model="gpt-5.2", instructions="Review the code.")
coder = Agent("coder", model="gpt-5.2", instructions="Code, then hand over to reviewer.", handoffs=[reviewer])
session = SQLiteSession("chat", "chat.db")
print(Runner.run_sync(coder, "Write hello.py", session=session).final_output)
