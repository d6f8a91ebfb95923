"""The programs: what people of other libraries would miss, as a team, a script and a person each."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pydantic import BaseModel

from stenolog import Conversation, UserMessage
from stenolog.context import Budget
from stenolog.engine import (
    Agent,
    AskPerson,
    AutoSummary,
    Output,
    Refuse,
    Replace,
    Runtime,
    Situation,
    Team,
    after_answer,
    after_result,
    before_call,
)
from stenolog.errors import ModelError
from stenolog.events import AssistantMessage, LlmError, ModeSwitch
from stenolog.tools import ToolContext, ToolOutput, tool

from .handing_on import HANDING_ON
from .world import Asked, Program, World, call


def approving(world: World, runtime: Runtime) -> Team:
    """Return a team whose tool waits for an approval."""

    @tool(approval=True)
    def pay(euro: int, context: ToolContext) -> str:
        """Pay."""
        world.effects.append(f"pay {euro} {context.key}")
        return f"{euro} euro were paid"

    def turn(asked: Asked) -> object:
        return "It is paid." if asked.knows("c1") else call("pay", "c1", euro=12)

    return Team([Agent("clerk", llm=world.model(turn), tools=[pay])], world=runtime)


def overflowing(world: World, runtime: Runtime) -> Team:
    """Return a team whose model takes so little that a summary is needed."""

    def turn(asked: Asked) -> object:
        if len(asked.text) > 2_500:
            raise ModelError("context_length", f"too long: {len(asked.text)} tokens > 2500 maximum")
        return f"I have read {'a summary' if asked.has('They talked.') else 'it all'}."

    scribe = Agent("scribe", llm=world.model(lambda asked: "They talked."))
    return Team([Agent("clerk", llm=world.model(turn), summary=AutoSummary(by=scribe))], world=runtime)


def takes_little(asked: Asked) -> object:
    """Answer a request that is not too long."""
    if len(asked.text) > 2_500:
        raise ModelError("context_length", f"too long: {len(asked.text)} tokens > 2500 maximum")
    return "Read."


def cutting(world: World, runtime: Runtime) -> Team:
    """Return a team whose agent has a policy that cuts."""
    agent = Agent("clerk", llm=world.model(takes_little), policy=Budget(tokens=1_000_000))
    return Team([agent], world=runtime)


def falling_back(world: World, runtime: Runtime) -> Team:
    """Return a team whose first model fails at every other question, and whose second has another API."""

    def first(asked: Asked) -> object:
        if asked.body["messages"][-1]["role"] == "user" and asked.has("Two") and not asked.has("Three"):
            raise ModelError("overloaded", "busy")
        return "The first."

    def second(asked: Asked) -> object:
        return "The second."

    models = [world.model(first, "first", api="anthropic"), world.model(second, "second")]
    return Team([Agent("clerk", llm=models, parameters={"max_tokens": 99})], world=runtime)


def instructed(world: World, runtime: Runtime) -> Team:
    """Return a team whose instructions are a function of the day and of the step."""

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        world.effects.append(f"look {context.key}")
        return "tea"

    def turn(asked: Asked) -> object:
        return "It is tea." if asked.has("Thursday. Answer now.") else call("look", "c1")

    def instructions(now: Situation) -> str:
        return f"Today is {now.time:%A}. {'Answer now.' if now.lane.steps else 'Look first.'}"

    return Team([Agent("clerk", llm=world.model(turn), persona=instructions, tools=[look])], world=runtime)


def kept_limit(conversation: Conversation, world: World) -> Iterator[str]:
    """Yield a fault if the limit of the model is not kept, or the request failed twice."""
    failed = [e.event for e in conversation.entries() if isinstance(e.event, LlmError)]
    if [each.category for each in failed].count("context_length") != 1:
        yield f"failed by {failed}"
    if not conversation.settings().card_of("clerk").context_limit:
        yield "no limit is known"


def models_that_spoke(conversation: Conversation, world: World) -> Iterator[str]:
    """Yield a fault if the second model answered other questions than the second."""
    answers = [e.event for e in conversation.entries() if isinstance(e.event, AssistantMessage)]
    if (found := [each.model for each in answers]) != ["first", "second", "first"]:
        yield f"answered by {found}"


# Answers of a type.


class Invoice(BaseModel):
    """An invoice, as an agent must give it."""

    euro: int


def typed(world: World, runtime: Runtime) -> Team:
    """Return a team whose agent gives an invoice, at the second try."""

    def turn(asked: Asked) -> object:
        return '{"euro": 12}' if asked.has("many") else '{"euro": "many"}'

    return Team([Agent("clerk", llm=world.model(turn, "gpt-5"), output=Invoice)], world=runtime)


def typed_by_tool(world: World, runtime: Runtime) -> Team:
    """Return a team whose agent gives an invoice by a call."""

    def turn(asked: Asked) -> object:
        return call("invoice", "c2", euro=12) if asked.has("many") else call("invoice", "c1", euro="many")

    output = Output(Invoice, tool=True, name="invoice")
    return Team([Agent("clerk", llm=world.model(turn), output=output)], world=runtime)


def typed_by_function(world: World, runtime: Runtime) -> Team:
    """Return a team whose agent gives an invoice to a function, which has an effect."""

    @tool(repeat="safe")
    def book(euro: int) -> Invoice:
        """Book an invoice."""
        if euro > 100:
            raise ValueError("at most 100 euro")
        world.do(f"book {euro}")
        return Invoice(euro=euro)

    def turn(asked: Asked) -> object:
        return call("book", "c2", euro=12) if asked.has("at most") else call("book", "c1", euro=1200)

    return Team([Agent("clerk", llm=world.model(turn), output=book)], world=runtime)


def gave_an_invoice(conversation: Conversation, world: World) -> Iterator[str]:
    """Yield what is wrong with the object that the program was given."""
    if world.results and world.results[-1].output not in (Invoice(euro=12), None):
        yield f"output: {world.results[-1].output!r}"


# A result, of words and a picture.


PICTURE = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def seeing(world: World, runtime: Runtime) -> Team:
    """Return a team whose agent is shown a picture."""

    def turn(asked: Asked) -> object:
        return "A dot." if asked.has("image/png") else "I see nothing."

    return Team([Agent("clerk", llm=world.model(turn))], world=runtime)


def told_all(conversation: Conversation, world: World) -> Iterator[str]:
    """Yield what is wrong with the result."""
    for result in world.results[-1:]:
        if (result.answer, result.why, result.error) != ("A dot.", "rest", None):
            yield f"result: {result}"
        messages = replace(result, conversation=conversation).messages("anthropic")
        if result.entries and "A dot." not in str(messages):
            yield f"messages: {messages}"


# A question from inside a tool.


def asking(world: World, runtime: Runtime) -> Team:
    """Return a team whose tool asks twice before it acts."""

    @tool(repeat="keyed")
    async def pay(context: ToolContext) -> str:
        """Pay."""
        account = await context.ask("Which account?", choices=["current", "savings"])
        euro = await context.ask("How much?", schema=int)
        world.do(f"pay {account} {euro} {context.key}")
        return f"{euro} euro were paid from {account}"

    def turn(asked: Asked) -> object:
        return "It is paid." if asked.knows("c1") else call("pay", "c1")

    return Team([Agent("clerk", llm=world.model(turn), tools=[pay])], world=runtime)


def asked_once(conversation: Conversation, world: World) -> Iterator[str]:
    """Yield a fault if a question was asked twice, or something else was done than answered."""
    events = (entry.event for entry in conversation.entries())
    controls = [e.control.action for e in events if isinstance(e, UserMessage) and e.control]
    if not any("savings 12" in each for each in world.effects) or controls != ["ask", "answer"] * 2:
        yield f"{controls}, {world.effects}"


# A tool that ends the run, and what a program passes to it.


@dataclass
class Bank:
    """What a program passes to its tools: never recorded."""

    secret: str = "a-token-of-the-bank"


def ending(world: World, runtime: Runtime) -> Team:
    """Return a team whose tool ends the run, by what the program passes to it."""

    @tool(ends_run=True, repeat="keyed")
    def pay(context: ToolContext[Bank]) -> str:
        """Pay."""
        world.do(f"pay {context.key} {len(context.deps.secret)}")
        return "Paid."

    def turn(asked: Asked) -> object:
        return "I have paid already." if asked.has("again") else call("pay", "c1")

    return Team([Agent("clerk", llm=world.model(turn), tools=[pay])], world=runtime, deps=Bank())


def kept_secret(conversation: Conversation, world: World) -> Iterator[str]:
    """Yield a fault if what the program passed is in the log, or the model was called after the end."""
    if Bank().secret in str([*conversation.entries()]):
        yield "the secret is in the log"
    events = (entry.event for entry in conversation.entries())
    kinds = [event.kind for event in events if not isinstance(event, LlmError | ModeSwitch)]
    if kinds[1:4] != ["assistant_message", "tool_result", "user_message"]:
        yield f"the run went on: {kinds}"


# Checks: an answer is asked for again, one is replaced, and one is held back until a person goes on.


def checking(world: World, runtime: Runtime) -> Team:
    """Return a team whose agent's answers are judged."""

    @after_answer
    def polite(answer: AssistantMessage) -> Refuse | None:
        world.judged.append("polite")
        return Refuse("be polite") if "Go away" in answer.text else None

    @after_answer
    def no_prices(answer: AssistantMessage) -> Replace | None:
        return Replace("That is secret.", "prices are secret") if "3 euro" in answer.text else None

    @after_answer
    def is_sure(answer: AssistantMessage) -> AskPerson | None:
        return AskPerson("Is it true?") if "perhaps" in answer.text else None

    def turn(asked: Asked) -> object:
        if asked.has("Is there tea"):
            return "There is tea, perhaps."
        return "A loaf is 3 euro." if asked.has("be polite") else "Go away."

    checks = [polite, no_prices, is_sure]
    return Team([Agent("clerk", llm=world.model(turn), checks=checks)], world=runtime)


def judged(conversation: Conversation, world: World) -> Iterator[str]:
    """Yield a fault if an answer counts that was not let pass, or the model was told what it must not be."""
    given = conversation.request("clerk").body["messages"]
    told = [message["content"] for message in given if message["role"] == "assistant"]
    if "That is secret." not in told or "3 euro" in str(told):
        yield f"told: {told}"


def checking_calls(world: World, runtime: Runtime) -> Team:
    """Return a team whose tool sells what checks and a person let pass, and tells no names."""

    @tool(repeat="keyed")
    def sell(loaves: int, context: ToolContext) -> str:
        """Sell loaves."""
        world.do(f"sell {loaves} {context.key}")
        return f"{loaves} sold to Ada"

    @before_call
    def no_bulk(called: ToolContext) -> Replace | None:
        world.judged.append("no_bulk")
        return Replace({"loaves": 100}, "at most 100") if "200" in called.arguments else None

    @before_call
    def is_meant(called: ToolContext) -> AskPerson | None:
        return AskPerson("Sell five?") if '"loaves": 5' in called.arguments else None

    @after_result
    def no_names(called: ToolContext, output: ToolOutput) -> Replace:
        return Replace(str(output.content[0]).replace("Ada", "a person"), "names are private")

    def turn(asked: Asked) -> object:
        if asked.knows("c1"):
            return "Sold." if asked.knows("c2") else call("sell", "c2", loaves=5)
        return call("sell", "c1", loaves=200)

    checks = [no_bulk, is_meant, no_names]
    return Team([Agent("clerk", llm=world.model(turn), tools=[sell], checks=checks)], world=runtime)


def sold_less(conversation: Conversation, world: World) -> Iterator[str]:
    """Yield a fault if other than what was let pass was sold, or the log has the name."""
    if [each.split()[1] for each in world.effects] != ["100", "5"]:
        yield f"{world.effects}"
    if "Ada" in str([*conversation.entries()]):
        yield "the name is in the log"


LONG = "x" * 900

PROGRAMS = [
    Program(
        "overflow",
        overflowing,
        (f"One {LONG}", f"Two {LONG}", f"Three {LONG}"),
        "I have read a summary.",
        holds=kept_limit,
    ),
    Program(
        "overflow-policy",
        cutting,
        (f"One {LONG}", f"Two {LONG}", f"Three {LONG}"),
        "Read.",
        holds=kept_limit,
        claims=True,
    ),
    Program("fall-back", falling_back, ("One", "Two", "Three"), "The first.", holds=models_that_spoke),
    Program("instructions", instructed, ("What is it?",), "It is tea."),
    Program("approval", approving, ("Pay the bill.",), "It is paid.", {"pay": {"euro": 11}}, claims=True),
    Program("typed", typed, ("How much?",), '{"euro": 12}', holds=gave_an_invoice),
    Program("typed-tool", typed_by_tool, ("How much?",), "", holds=gave_an_invoice),
    Program("typed-function", typed_by_function, ("How much?",), "", holds=gave_an_invoice),
    Program("result", seeing, (["What is it?", PICTURE],), "A dot.", holds=told_all),
    Program(
        "question",
        asking,
        ("Pay.",),
        "It is paid.",
        {"Which account?": "savings", "How much?": 12},
        asked_once,
        True,
    ),
    Program(
        "ends-run", ending, ("Pay.", "And again."), "I have paid already.", holds=kept_secret, claims=True
    ),
    *HANDING_ON,
    Program(
        "checks",
        checking,
        ("A loaf?", "Is there tea?"),
        "There is tea, perhaps.",
        {"continue": True},
        holds=judged,
    ),
    Program("checks-calls", checking_calls, ("Sell 200.",), "Sold.", {"Sell five?": "yes"}, holds=sold_less),
]
"""Hand-offs, answers of a type, long contexts, a fall-back, checks, what a program passes to its tools,
instructions by a function, questions, a tool that ends the run, results; and approvals."""
