"""The policies that requests are tried under: small ones for histories of a few words, and real ones."""

from __future__ import annotations

from collections.abc import Mapping

from stenolog.context import (
    Attribution,
    Budget,
    FullHistory,
    LastN,
    MemoriesAndRecent,
    MissedMessages,
    Pins,
    Policy,
    Prompt,
    Reminder,
    SinceLastTurn,
    SinceLastTurnOrRecent,
    SummaryAndRecent,
    TruncateToolOutput,
    policy,
)

AROUND = Prompt(
    base="Be good",
    tools="Look before you leap",
    modes={"chat": "Chat!", "run": "Run!"},
    banner="[{mode}]",
    cut_note=True,
)
SMALL: Mapping[str, Policy] = {
    "full": policy(FullHistory()),
    "delta": policy(SinceLastTurn()),
    "last": policy(LastN(3)),
    "last in steps": LastN(6, step=3) | Prompt(scope_note=True),
    "summary": policy(SummaryAndRecent(3)),
    "memory": policy(MemoriesAndRecent(2)),
    "tokens": policy(Budget(tokens=300)),
    "tokens as billed": Budget(tokens=400, counter="learned") | Pins(tags=("goal",)),
    "messages": policy(Budget(messages=6)),
    "characters": policy(Budget(characters=900)),
    "bytes": policy(Budget(bytes=4_000)),
    "pins": Budget(tokens=400) | Pins(tags=("goal",), authors=("Ada",), positions=(3,)),
    "reminded": Reminder(2, text="Mind the goal") | Pins(tags=("goal",), authors=("Ada",)),
    "what was missed": MissedMessages() | Reminder(2, text="Mind the goal"),
    "delta and what was missed": SinceLastTurn() | MissedMessages() | Reminder(2) | Pins(tags=("goal",)),
    "delta or the last": SinceLastTurnOrRecent(3) | Prompt(cut_note=True),
    "delta in a budget": SinceLastTurn() | Budget(tokens=600, messages=9, characters=3_000, bytes=9_000),
    "no passes": policy(Attribution(pass_token="pass", own_passes=False)),
    "system": Attribution(others="💬 {name}", user="🟢 USER", role="system") | MissedMessages(),
    "one voice": policy(Attribution(role="assistant", pass_token="pass")),
    "one voice for what is new": SinceLastTurn() | Attribution(role="assistant"),
    "one voice in a budget": Attribution(role="assistant") | Budget(tokens=500, messages=9) | Reminder(2),
    "everything": Budget(tokens=500)
    | Pins(tags=("goal",))
    | Attribution(others="💬 {name}:", pass_token="pass")
    | MissedMessages()
    | Reminder(2, text="Mind the goal")
    | AROUND
    | TruncateToolOutput(over=20, head=8, tail=4),
}
"""For histories of a dozen short messages: each cuts, adds or leaves out something there."""

BANNERS = Prompt(
    base="Answer in the language of the question. " * 10,
    tools="Read a file before you change it. " * 10,
    modes={"chat": "Talk it over first. " * 5, "agent": "Work until it is done. " * 5},
    banner="Mode: {mode}",
)
ROOM = Budget(tokens=8_000)
REAL: Mapping[str, Policy] = {
    "full": policy(FullHistory()),
    "delta": policy(SinceLastTurn()),
    "last 50": policy(LastN(50)),
    "last 50 in steps of 25": policy(LastN(50, step=25)),
    "summary and 20": policy(SummaryAndRecent(20)),
    "memory and 20": policy(MemoriesAndRecent(20)),
    "2k tokens": policy(Budget(tokens=2_000)),
    "8k tokens": policy(ROOM),
    "32k tokens": policy(Budget(tokens=32_000)),
    "32k tokens as billed": policy(Budget(tokens=32_000, counter="learned")),
    "80 messages, 120,000 characters": policy(Budget(messages=80, characters=120_000)),
    "100,000 bytes": policy(Budget(bytes=100_000)),
    "pins": ROOM | Pins(positions=(2, 3), authors=("user",), tags=("goal",)),
    "delta or the last 20": policy(SinceLastTurnOrRecent(20)),
    "delta in a budget": SinceLastTurn() | ROOM,
    "compact": ROOM | TruncateToolOutput(over=400, head=100, tail=50),
    "instructions first": ROOM | Prompt(base="Be brief.", banner="{mode}", place="first"),
    "everything": Budget(tokens=16_000, messages=60, characters=60_000, bytes=120_000)
    | SummaryAndRecent(40, step=10)
    | Pins(positions=(2,))
    | TruncateToolOutput()
    | Attribution(others="💬 {name}:", pass_token="[PASS]")
    | MissedMessages()
    | Reminder(5, text="Stay with the question.")
    | BANNERS,
}
"""As one would choose them for a session of hundreds of messages."""
