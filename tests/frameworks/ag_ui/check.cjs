// Gives streams of events to the official client, one a line, as {events, messages}: each is parsed, verified and
// applied, to the messages that the client has.
// Says of each, one JSON object a line, the first error (or null) and the messages and the state it comes to.
const { createRequire } = require("module");
const installed = createRequire(process.argv[2] + "/package.json");
const { verifyEvents, defaultApplyEvents } = installed("@ag-ui/client");
const { EventSchemas } = installed("@ag-ui/core/schemas");
const { from, lastValueFrom, toArray } = installed("rxjs");

console.warn = (said) => { throw new Error(said); };

async function check(line) {
  const given = JSON.parse(line);
  const told = { error: null, messages: given.messages, state: null };
  try {
    const events = given.events.map((event) => EventSchemas.parse(event));
    const legal = await lastValueFrom(from(events).pipe(verifyEvents(false), toArray()));
    const input = { threadId: "t", runId: "r", messages: given.messages, state: {}, tools: [], context: [] };
    const changes = defaultApplyEvents(input, from(legal), { messages: given.messages }, []);
    for (const change of await lastValueFrom(changes.pipe(toArray()))) {
      told.messages = change.messages ?? told.messages;
      told.state = change.state ?? told.state;
    }
  } catch (error) {
    told.error = String(error.message ?? error);
  }
  return told;
}

async function main() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const lines = Buffer.concat(chunks).toString("utf8").split("\n").filter(Boolean);
  for (const line of lines) process.stdout.write(JSON.stringify(await check(line)) + "\n");
}

main();
