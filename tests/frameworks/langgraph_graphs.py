"""Graphs of LangGraph, over a scripted model, which answers from what it is sent; and what they are asked."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.channels import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Send, interrupt

ONE: Any = {"configurable": {"thread_id": "one"}}
ASKED = {"messages": [HumanMessage("Where is it?", id="q1")]}
MAY = {"messages": [HumanMessage("May I?", id="q1")]}
LATER = {"messages": [HumanMessage("And now?", id="q2")]}
TOLD = [
    ("user", "Where is it?"),
    ("assistant", "Let me see."),
    ("assistant", "look: a cat in the hat"),
    ("assistant", "look: a cat in the box"),
    ("assistant", "I know: a cat in the box."),
]
"""Who says what when it is asked where it is."""


def said(state: dict[str, Any]) -> list[str]:
    return [message.content for message in state["messages"]]


class Talk(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    looked: Annotated[list[str], operator.add]


@tool
def look(where: str) -> str:
    """Look somewhere."""
    return f"a cat in the {where}"


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return str(interrupt(question))


def model(state: Talk) -> dict[str, Any]:
    """Return two calls for a question, a question for one that begins with "May", and then an answer."""
    last = state["messages"][-1]
    asked = next(message.id for message in reversed(state["messages"]) if isinstance(message, HumanMessage))
    if not isinstance(last, HumanMessage):
        return {"messages": [AIMessage(f"I know: {last.content}.", id=f"answer-{asked}")]}
    wanted = [("ask", {"question": "Sure?"})] if str(last.content).startswith("May") else LOOKS
    calls = [{"id": f"call-{asked}-{n}", "name": name, "args": args} for n, (name, args) in enumerate(wanted)]
    said = AIMessage("Let me see.", id=f"calls-{asked}", tool_calls=calls)
    return {"messages": [said]} | ({"looked": [last.id]} if "looked" in state else {})


LOOKS: list[tuple[str, dict[str, str]]] = [("look", {"where": "hat"}), ("look", {"where": "box"})]


def talking(saver: Any, model: Any = model) -> Any:
    """Return a model and its tools, in turns."""
    graph = StateGraph(Talk)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([look, ask]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def crew(saver: Any) -> Any:
    """Return a researcher, who is a graph of its own, and then a writer."""
    graph = StateGraph(Talk)
    graph.add_node("researcher", talking(None))
    graph.add_node("writer", lambda state: {"messages": [AIMessage("Written.", id="written", name="writer")]})
    graph.add_edge(START, "researcher")
    graph.add_edge("researcher", "writer")
    return graph.compile(checkpointer=saver)


class Jokes(TypedDict):
    subjects: list[str]
    jokes: Annotated[list[str], operator.add]


def fan_out(saver: Any) -> Any:
    """Return one task for each subject, all at once."""
    graph = StateGraph(Jokes)
    graph.add_node("plan", lambda state: {})
    graph.add_node("joke", lambda state: {"jokes": [f"A joke about {state['subject']}"]})
    graph.add_edge(START, "plan")
    graph.add_conditional_edges(
        "plan", lambda state: [Send("joke", {"subject": one}) for one in state["subjects"]], ["joke"]
    )
    return graph.compile(checkpointer=saver)


class Growing(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


def growing(saver: Any) -> Any:
    """Return a talk with a delta channel: its checkpoints hold no messages, but the writes."""
    graph = StateGraph(Growing)
    graph.add_node("model", lambda state: model(state))
    graph.add_node("tools", ToolNode([look, ask]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)
