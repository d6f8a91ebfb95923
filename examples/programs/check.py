"""A check of answers in code: the model is told what is wrong, and answers again."""

import stenolog
from stenolog.engine import Refuse, after_answer


@after_answer
def no_greeting(answer: stenolog.AssistantMessage) -> Refuse | None:
    return Refuse("Answer without a greeting.") if "Hello" in answer.text else None


team = stenolog.Team([stenolog.Agent("guide", llm="openai:gpt-5.2", checks=[no_greeting])])
print(team.ask_sync(stenolog.open("chat.db")["chat"], "Hello"))
