// An agent with a tool, in a loop of its own: killed at any moment and started again, it goes on.
//
//     node dist/examples/agent.js talks.db
//
// STENOLOG is the command of the service, OPENAI_BASE_URL and OPENAI_API_KEY are those of the provider.
import { setTimeout as sleep } from "node:timers/promises";

import { Client, type AgentRequest, type Call, type JsonObject, type Outcome } from "stenolog";

const { STENOLOG = "stenolog", OPENAI_BASE_URL = "http://127.0.0.1:8080/v1", OPENAI_API_KEY } = process.env;
const here = { conversation: "story", agent: "coder" };
const look = {
  type: "function",
  function: {
    name: "look",
    description: "Look into a place.",
    parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] },
  },
};

/** Send a request to the provider, and return what came of it. */
async function ask(request: AgentRequest): Promise<Outcome> {
  const headers = new Headers({ "content-type": "application/json" });
  if (OPENAI_API_KEY) headers.set("authorization", `Bearer ${OPENAI_API_KEY}`);
  try {
    const body = request.text ?? "";
    const answer = await fetch(`${OPENAI_BASE_URL}/chat/completions`, { method: "POST", headers, body });
    if (answer.ok) return { response: (await answer.json()) as JsonObject };
    const { status } = answer;
    return { failure: { status, message: await answer.text(), headers: Object.fromEntries(answer.headers) } };
  } catch (error) {
    return { failure: { category: "network", message: String(error) } };
  }
}

/** Run a tool. */
function run(call: Call): string {
  return `in the ${JSON.parse(call.arguments).place}: a cat`;
}

const log = Client.stdio({ command: STENOLOG.split(" "), ...(process.argv[2] && { db: process.argv[2] }) });
await log.join({ ...here, model: "gpt-5.2", persona: "You are coder.", tools: [look] });
await log.append({
  conversation: here.conversation,
  events: [
    {
      kind: "user_message",
      event: { text: "What is in the box? Größe: 5 → 6 🐈", to: [here.agent] },
      id: "question",
    },
  ],
});
for (;;) {
  const { effects } = await log.state({ conversation: here.conversation });
  const next = effects.find((effect) => effect.lane === here.agent);
  if (!next) break;
  await sleep(next.due * 1000);
  if (next.call) {
    const { id, entry, index, name, position } = next.call;
    const event = { call_id: id, call: { entry, index }, name, text: run(next.call) };
    await log.append({
      conversation: here.conversation,
      events: [{ kind: "tool_result", event, id: `result-${position}-${index}` }],
    });
  } else {
    const request = await log.request({ ...here, with_text: true });
    const outcome = await ask(request);
    const id = `answer-${request.at}`;
    await log.answer({ ...here, receipt: request.receipt, outcome, retry: true, id });
  }
}
const { entries } = await log.entries({ conversation: here.conversation });
const last = entries.flatMap((entry) => (entry.kind === "assistant_message" ? [entry.event] : [])).at(-1);
console.log(last?.parts?.map((part) => (part.type === "text" ? part.text : "")).join("") ?? "");
await log.close();
