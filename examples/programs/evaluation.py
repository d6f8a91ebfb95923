"""Two models asked the same, and scored by a third: answers and scores stay in the log."""

import stenolog
from stenolog.engine import AutoScore

judge = stenolog.Agent("judge", llm="openai:gpt-5.2")
for model in ("openai:gpt-5.2", "openai:gpt-5-mini"):
    team = stenolog.Team([stenolog.Agent("guide", llm=model, score=AutoScore(by=judge))])
    for question in ("Where is Paris?", "Where is Rome?"):
        chat = stenolog.open("chat.db")[f"{model} {question}"]
        print(model, team.ask_sync(chat, question), getattr(chat[-1].event, "text", ""))
