"""A check of answers in code: it raises, and the model is asked again."""

from typing import Any

import agents


@agents.output_guardrail
def no_greeting(context: Any, agent: Any, answer: str) -> agents.GuardrailFunctionOutput:
    return agents.GuardrailFunctionOutput(output_info=None, tripwire_triggered="Hello" in answer)


agent = agents.Agent("guide", model="gpt-5.2", output_guardrails=[no_greeting])
session = agents.SQLiteSession("chat", "chat.db")
try:
    print(agents.Runner.run_sync(agent, "Hello", session=session).final_output)
except agents.OutputGuardrailTripwireTriggered:
    print(agents.Runner.run_sync(agent, "Answer without a greeting.", session=session).final_output)
