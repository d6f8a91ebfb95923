// Made by generate.py from the JSON Schemas of `stenolog serve`: change those, not this.

/** A JSON object whose fields this protocol does not say. */
// any: so that the answer of a provider's SDK is one too.
export type JsonObject = { [name: string]: any };

/** An event of the log; `kind` tells its fields. */
export type Event =
  | { kind: "user_message"; event: UserMessage }
  | { kind: "assistant_message"; event: AssistantMessage }
  | { kind: "tool_result"; event: ToolResult }
  | { kind: "llm_error"; event: LlmError }
  | { kind: "mode_switch"; event: ModeSwitch };

/** An event on its way into the log; `text` stands for parts with that one text. */
export type EventToWrite =
  | { kind: "user_message"; event: UserMessage & { text?: string } }
  | { kind: "assistant_message"; event: AssistantMessage & { text?: string } }
  | { kind: "tool_result"; event: ToolResult & { text?: string } }
  | { kind: "llm_error"; event: LlmError & { text?: string } }
  | { kind: "mode_switch"; event: ModeSwitch };

/** What was erased, or is of a later release: its fields, or its payload as text. */
export interface UnknownEvent {
  kind: "unknown";
  event: JsonObject | string;
}

/** The service: its version, and that of this protocol. */
export interface About {
  stenolog: string;
  /** Raised when a method or a field goes or changes its meaning, and not when one is added. */
  protocol: number;
  methods: string[];
}

/**
 * An agent's configuration: always a setting, never a message.
 *
 * `tools` null: not known; tools that it called get stubs. `parameters` are the provider's own
 * (temperature, max_tokens …). `policy` chooses the context: a value of `stenolog.context`,
 * stored as JSON. `context_limit` is the largest request, in tokens as its budget counts them,
 * since a larger one was refused; 0: not known. `patched` are the fields that were set while the
 * agent worked, such as "model"; a team that starts again leaves them as they are.
 */
export interface AgentCard {
  model?: string;
  provider?: string;
  persona?: string;
  tools?: Tool[] | null;
  parameters?: JsonObject;
  policy?: JsonObject;
  context_limit?: number;
  patched?: string[];
}

/** An agent's next request. */
export interface AgentRequest {
  agent: string;
  task: string;
  at: number;
  api: string;
  /** The provider's JSON body: send it as it is. */
  body: JsonObject;
  sendable: boolean;
  /** The reason why it cannot be sent; empty if it can. */
  reason: string;
  /** The reason, empty also if there is nothing to answer. */
  obstacle: string;
  /** The reason in one word, such as "answered", "tools", "approval" or "backoff". */
  code: string;
  sha256: string;
  /** The proof of what was sent: give it back with the answer. */
  receipt: JsonObject;
  /** The body as the very JSON text to send, where `with_text` asked for it. */
  text?: string | null;
  /** `size`, `parts` and `omissions`, where `with_explanation` asked for them. */
  explanation?: JsonObject | null;
}

/** The outcome of a model call of one's own loop. */
export interface AnswerParams {
  conversation: string;
  agent: string;
  task?: string;
  /** The receipt of the request that was sent. */
  receipt?: JsonObject | null;
  outcome: Outcome;
  /** The id of the first entry, so that the call may be repeated. */
  id?: string | null;
  /** true: the engine's retry policy sets the time of the next attempt after a failure. */
  retry?: boolean;
}

/** A question that a call asked a person, and the answer. */
export interface AnsweredQuestion {
  question: string;
  /** The answer as JSON text. */
  answer: string;
}

/** Events to append, all of them or none. */
export interface AppendParams {
  conversation: string;
  events: NewEvent[];
  /** The position that the conversation must be at; a mode switch needs it after a first entry. */
  expected?: number | null;
}

/** A question of a tool to a person. */
export interface AskedQuestion {
  text: string;
  /** The answers to choose from; none: any. */
  choices?: string[];
  /** The JSON Schema of the answer; none: a text. */
  expects?: JsonObject;
}

/** An agent's message, part by part. */
export interface AssistantMessage {
  /** The application's own data, a JSON object. Its first key is the application's name. */
  meta?: JsonObject;
  /** Words of the application, such as "draft". */
  tags?: string[];
  /** The workflow run that the event belongs to. */
  run?: string;
  /** The node of that run. */
  node?: string;
  /** false: the event is only for the timeline and is never sent to a model. */
  in_context?: boolean;
  /** The record of another program that the event was imported from. */
  source?: Origin | null;
  /** The agent that speaks. */
  agent: string;
  /** The task that it works on beside others, part of its lane's address; empty for most. */
  task?: string;
  /** Texts, reasoning, tool calls and refusals, in the order of the provider's answer. */
  parts?: (TextPart | ReasoningPart | ToolCall | RefusalPart | ProviderPart)[];
  /** The position that it answers. */
  cause?: number | null;
  /** Only an "answer" takes a turn. A "summary" replaces what it `covers`. */
  purpose?: "answer" | "summary" | "memory" | "routing";
  /**
   * The positions that a summary replaces, for its author's lane and those in `to`: of these, it
   * hides what its author was sent.
   */
  covers?: PositionRange[];
  /**
   * The addresses that it is for; empty: for everyone. A summary is for its author's lane too, and
   * for no others if it names none.
   */
  to?: string[];
  /** The model that answered, by the provider's name. */
  model?: string;
  /** Why the model stopped, in the provider's word. */
  finish_reason?: string;
  /** The tokens, as the provider counted them. */
  usage?: Usage | null;
  /** Milliseconds from the request to the end of the answer. */
  duration_ms?: number | null;
  /** Milliseconds from the request to the first piece of the answer. */
  first_token_ms?: number | null;
  /** The session id of a backend that keeps the history itself. */
  session?: string;
  /** The position of the answer that this one replaces. */
  replaces?: number | null;
  /** The proof of what the model was sent. */
  receipt?: Receipt | null;
}

/** A conversation at a position; null: now. */
export interface AtParams {
  conversation: string;
  at?: number | null;
}

/** A blob's bytes. */
export interface Blob {
  base64: string;
}

/** A blob. */
export interface BlobParams {
  sha256: string;
}

/** A tool call as it is to run. */
export interface Call {
  id: string;
  name: string;
  /** The arguments as JSON text, as the model wrote them or a person changed them. */
  arguments: string;
  /** The id of the entry that holds the call. */
  entry: string;
  /** The call's place among that entry's calls, from 0. */
  index: number;
  position: number;
  /** The answers to the questions that it asked, in order. */
  answers?: AnsweredQuestion[];
}

/** The result of a tool call. */
export interface CallOutput {
  text?: string;
  /** Texts, images and files, in the place of `text`. */
  parts?: JsonObject[];
  is_error?: boolean;
  duration_ms?: number | null;
  meta?: JsonObject;
  /** The agent that takes over, after a call of a tool that ends the run. */
  hands_on_to?: string;
  /** The words for that agent. */
  message?: string;
}

/** One tool call: the id of the entry that holds it, and its index among that entry's calls. */
export interface CallRef {
  entry: string;
  index?: number;
}

/** Work that a runner looks for. */
export interface ClaimParams {
  conversation: string;
  /** The agents that it works for; empty: all members. */
  agents?: string[];
  /** The form of the requests; null: for each agent the API of its answers. */
  api?: string | null;
  /** The form for single agents, if they differ. */
  apis?: Record<string, string>;
  /** The tools whose calls may run twice. Another one's call that was cut off is closed as unknown. */
  repeatable?: string[];
  /** The limits of each lane's work, as `stenolog.engine.Limits` has them; null: its defaults. */
  limits?: JsonObject | null;
  /** true: an `@name` in an answer hands on, though no turn rule goes by names. */
  mentions?: boolean;
  limit?: number;
  /** The most seconds to wait for work. */
  wait?: number;
  /**
   * A name of the runner, needed over HTTP: its claims lapse when it has not called for `lease`
   * seconds.
   */
  owner?: string;
  /**
   * The fences that this owner is at. It may have others whose answer was lost: they are claimed
   * anew.
   */
  at_work?: number[] | null;
  lease?: number;
}

/** An effect that this runner has, until it settles or releases it. */
export interface Claimed {
  fence: number;
  lane: string;
  agent: string;
  task: string;
  effect: string;
  cause: number;
  attempt: number;
  /** An idempotency key: the same for a tool call that runs again. */
  key: string;
  /** The request of a model call. */
  request: AgentRequest | null;
  /** The call of a tool. */
  call: Call | null;
}

/** A conversation; null: all of them. */
export interface ClaimsParams {
  conversation?: string | null;
}

/**
 * A command to the engine: a person's, or a tool's that asks a person.
 *
 * `approve` and `refuse` name one call by `call`; `cancel` and `continue` name a lane by `agent`
 * and `task`. `ask` has the `question` of a call, `answer` its answer, as JSON. `arguments` of
 * an `approve`, a JSON object, replace the model's. `identity` is who decided, in free text, and
 * `signature` theirs.
 */
export interface Control {
  action: "approve" | "refuse" | "cancel" | "continue" | "ask" | "answer";
  call?: CallRef | null;
  agent?: string;
  task?: string;
  arguments?: string;
  identity?: string;
  signature?: Signature | null;
  question?: ToolQuestion | null;
  answer?: string;
}

/** A named link to another conversation: its name then, a position in it, and the digest there. */
export interface ConversationRef {
  conversation: string;
  position: number;
  digest: string;
}

/** The names of conversations. */
export interface Conversations {
  names: string[];
}

/** Some of the conversations. */
export interface ConversationsParams {
  prefix?: string;
  archived?: boolean;
  limit?: number;
  order?: "oldest" | "newest" | "latest" | "a-z" | "z-a";
}

/**
 * Text that has streamed since the last draft of this claim; it is in the log if the runner
 * dies.
 */
export interface DraftParams {
  conversation: string;
  fence: number;
  owner?: string;
  text: string;
}

/** A model call or a tool call that the log asks for. */
export interface Effect {
  /** `agent`, or `agent/task`. */
  lane: string;
  /** "model", or "tool" with the position of the answer and the call's place in it. */
  effect: string;
  cause: number;
  attempt: number;
  /** The time of a retry; null: now. */
  not_before: string | null;
  /** The seconds until then, by the clock of the log; 0: now. */
  due: number;
  /** The call of a tool; null for a model. */
  call: Call | null;
}

/** Entries, and the position read up to. */
export interface Entries {
  position: number;
  entries: Entry[];
}

/** The entries after `after`, up to `at`. */
export interface EntriesParams {
  conversation: string;
  after?: number;
  at?: number | null;
  limit?: number;
}

/** An event with its place in the log. */
export type Entry = (Event | UnknownEvent) & {
  conversation: string;
  position: number;
  id: string;
  time: string;
  digest: string;
  topic: string;
};

/** The failure of a model call, as the provider or the connection reported it. */
export interface Failure {
  /**
   * One of the log's categories ("timeout", "network", ...); empty: found by status, code and
   * message.
   */
  category?: string;
  message?: string;
  /** The HTTP status; 0 if there was none. */
  status?: number;
  code?: string;
  /** The response's headers, of which `retry-after` is read. They are not stored. */
  headers?: Record<string, string>;
}

/** A claimed effect. */
export interface FenceParams {
  conversation: string;
  fence: number;
  owner?: string;
}

/** A file: bytes by the sha256 of a blob, a URL, or its id at a provider. */
export interface FilePart {
  type: "file";
  name?: string;
  media_type?: string;
  blob?: string;
  url?: string;
  provider?: string;
  id?: string;
}

/** A position to fork at, and a name. */
export interface ForkParams {
  conversation: string;
  /** The last shared position; null: all. */
  after?: number | null;
  name?: string | null;
  pending?: "close" | "keep";
}

/** The new conversation. */
export interface Forked {
  conversation: string;
  position: number;
}

/** An entry that contains the words. */
export interface Hit {
  conversation: string;
  position: number;
  time: string;
  kind: string;
  who: string;
  snippet: string;
  /** The ranges of the words in the snippet: first character, and the one after the last. */
  marks: [number, number][];
}

/** The entries found, the best first. */
export interface Hits {
  hits: Hit[];
}

/** A picture: bytes by the sha256 of a blob, or a URL. */
export interface ImagePart {
  type: "image";
  media_type?: string;
  blob?: string;
  url?: string;
}

/** An agent's card. What is left out stays as it is. */
export interface JoinParams {
  conversation: string;
  agent: string;
  model?: string | null;
  persona?: string | null;
  /** Tools in the form of OpenAI or Anthropic. */
  tools?: JsonObject[] | null;
  parameters?: JsonObject | null;
  policy?: JsonObject | null;
}

/** The mode switch that was appended; null if the agent had that card already. */
export interface Joined {
  entry: Entry | null;
}

/** A model call that failed, with the parts that had already arrived. */
export interface LlmError {
  /** The application's own data, a JSON object. Its first key is the application's name. */
  meta?: JsonObject;
  /** Words of the application, such as "draft". */
  tags?: string[];
  /** The workflow run that the event belongs to. */
  run?: string;
  /** The node of that run. */
  node?: string;
  /** false: the event is only for the timeline and is never sent to a model. */
  in_context?: boolean;
  /** The record of another program that the event was imported from. */
  source?: Origin | null;
  /** The agent whose model was called. */
  agent: string;
  /** The task that it works on beside others; empty for most. */
  task?: string;
  /** The kind of failure, such as "timeout" or "rate_limited". */
  category: "timeout" | "network" | "rate_limited" | "overloaded" | "context_length" | "refused" | "cancelled" | "process_exited" | "invalid_response" | "invalid_request" | "unauthorized" | "budget" | "other";
  /** The provider's words, without secrets. */
  message?: string;
  /** The parts of the answer that had arrived. */
  parts?: (TextPart | ReasoningPart | ToolCall | RefusalPart | ProviderPart)[];
  /** The position that the call was to answer. */
  cause?: number | null;
  /** The model that was called. */
  model?: string;
  /**
   * The number of failed calls in a row, with this one. A call that was never made, or that was
   * stopped in good order, adds nothing: 0 if there is no other.
   */
  attempt?: number;
  /**
   * When it is tried again, jitter included; null: it is not. With the category "cancelled", the
   * program stopped it in good order, and the next run makes the call again.
   */
  retry_at?: string | null;
  /** The tokens counted before the call failed, at least; null: the provider had counted none. */
  usage?: Usage | null;
  /** Milliseconds from the request to the failure. */
  duration_ms?: number | null;
  /** The session id of a backend that keeps the history itself. */
  session?: string;
  /** The proof of what the model was sent. */
  receipt?: Receipt | null;
}

/**
 * A change of settings: a field left out is unchanged, null clears it; settings are a fold of
 * these.
 */
export interface ModeSwitch {
  /** The application's own data, a JSON object. Its first key is the application's name. */
  meta?: JsonObject;
  /** Words of the application, such as "draft". */
  tags?: string[];
  /** The workflow run that the event belongs to. */
  run?: string;
  /** The node of that run. */
  node?: string;
  /** false: the event is only for the timeline and is never sent to a model. */
  in_context?: boolean;
  /** The record of another program that the event was imported from. */
  source?: Origin | null;
  /** The agents that `mode`, `scope`, `handoff` and `context_from` are for; empty: all. */
  agents?: string[];
  /** "chat", "agent", "run", or an application's own word. */
  mode?: string | "unchanged" | null;
  /** The configuration of agents by name; null withdraws a card. */
  cards?: Record<string, AgentCard | null>;
  /** Agents that take part from here on. */
  joins?: string[];
  /** Agents that no longer take part. */
  leaves?: string[];
  /** "addressed": an agent sees its own lane, what names it, and what names no agent. */
  scope?: "open" | "addressed" | "unchanged" | null;
  /** The workflow run that the conversation is at. */
  active_run?: WorkflowRun | "unchanged" | null;
  /** The agent that takes over. */
  handoff?: string | "unchanged" | null;
  /** Whose turn it is when a message names no agent: a rule, such as `RoundRobin()`. */
  turns?: TurnPolicy | "unchanged" | null;
  /** The conversation's title. */
  title?: string | "unchanged" | null;
  /** The first position in context; nothing before it is sent. */
  context_from?: number | "unchanged" | null;
  /** All positions that are out of context (a rewind, a pop). */
  hides?: PositionRange[] | "unchanged" | null;
  /** The conversation that this one was forked from, or begun by. */
  parent?: ConversationRef | "unchanged" | null;
  /** true in the opening of a fork: the positions up to the parent's are the parent's own. */
  fork?: boolean;
}

/** An event on its way into the log. */
export type NewEvent = (EventToWrite) & {
  /** The entry's id, unique in the conversation. With an id a call may be repeated; it writes once. */
  id?: string | null;
  time?: string | null;
};

/** An object without fields. */
export type Nothing = Record<string, never>;

/** An effect that some runner is at. */
export interface OpenClaim {
  conversation: string;
  lane: string;
  effect: string;
  since: string;
  host: string;
  pid: number;
  alive: boolean;
  owner: string;
}

/** The effects under way, the oldest first. */
export interface OpenClaims {
  claims: OpenClaim[];
}

/** The source of an imported event: the foreign system, and its ids and role there. */
export interface Origin {
  system: string;
  id?: string;
  role?: string;
  lines?: string[];
}

/** The outcome of a model call or a tool call: one of these fields, except that chunks may fail. */
export interface Outcome {
  /** The provider's whole answer, as its JSON. */
  response?: JsonObject | null;
  /** All events of the provider's stream, in order; with `failure`, those that came before it. */
  chunks?: JsonObject[] | null;
  failure?: Failure | null;
  /** The output of a tool. */
  output?: CallOutput | null;
  /** The question of a tool, in place of its output: after the answer, its call is due again. */
  question?: AskedQuestion | null;
  /** The events themselves, if none of the others fits. */
  events?: NewEvent[] | null;
}

/** A part of a large output. */
export interface OutputParams {
  conversation: string;
  /** The name that requests give it, such as `@state/logs/...`. */
  alias: string;
  offset?: number;
  limit?: number;
}

/** Some characters of a text, from `offset` up to `end`, of `total`. */
export interface OutputText {
  text: string;
  offset: number;
  end: number;
  total: number;
  /** The offset to go on at; null: that was all. */
  next: number | null;
}

/** The positions `first` to `last`, both included. */
export interface PositionRange {
  first: number;
  last: number;
}

/**
 * A part that only its provider understands, as raw JSON text.
 *
 * It goes back only to the provider and model family that made it.
 */
export interface ProviderPart {
  type: "opaque";
  provider: string;
  model?: string;
  raw: string;
}

/**
 * A model's reasoning before its answer.
 *
 * `signature` and `encrypted` are the provider's proof and ciphertext: they go back unmodified,
 * and only to the provider and model family that made them. If a provider signs the answer and
 * not the reasoning, as Gemini does, the reasoning comes directly before the signed part.
 */
export interface ReasoningPart {
  type: "reasoning";
  text?: string;
  provider?: string;
  id?: string;
  signature?: string;
  encrypted?: string;
}

/**
 * The record of a request that an answer or an error carries: enough to build the request again.
 *
 * `view` is the position that the request was built at. `policy`, `pipeline`, `api` and
 * `counter` name what built it, with versions. `plan` has the runs that were `cut` out of the
 * window, and short digests of the body's `sections`. `sha256` is that of the body, as compact
 * UTF-8 JSON in the order sent, blobs by hash.
 *
 * `sent` is the sha256 of the bytes that went out, with blobs, and `transport` what the
 * transport changed: fields added and removed, style, method, path, headers that change
 * behaviour. Both are empty if the bytes are not known: then only the body can be proved.
 */
export interface Receipt {
  view: number;
  sha256: string;
  api?: string;
  pipeline?: string;
  counter?: string;
  policy?: JsonObject;
  plan?: JsonObject;
  sent?: string;
  transport?: JsonObject;
}

/** The model declined, in its provider's own form. */
export interface RefusalPart {
  type: "refusal";
  text: string;
}

/** A runner that is still at work. */
export interface RenewParams {
  owner: string;
  lease?: number;
}

/** An agent, a position, and the form of a provider. */
export interface RequestParams {
  conversation: string;
  agent: string;
  task?: string;
  at?: number | null;
  /**
   * openai-chat, openai-responses, cohere, anthropic, gemini or plain; null: the API of its
   * answers.
   */
  api?: string | null;
  /** A policy as its JSON; null: the one on the agent's card. */
  policy?: JsonObject | null;
  with_text?: boolean;
  with_explanation?: boolean;
}

/** Words to look for; see the command `search`. */
export interface SearchParams {
  query: string;
  conversation?: string | null;
  agent?: string | null;
  kinds?: ("user_message" | "assistant_message" | "tool_result" | "llm_error" | "mode_switch")[];
  since?: string | null;
  until?: string | null;
  limit?: number;
  newest?: boolean;
}

/** The outcome of a claimed effect. */
export interface SettleParams {
  conversation: string;
  fence: number;
  outcome: Outcome;
  /** The id of the first entry, so that the call may be repeated after a lost answer. */
  id?: string | null;
  owner?: string;
}

/**
 * An Ed25519 signature of a decision about a call.
 *
 * `key` is the public key, 64 hexadecimal digits, `value` the signature, 128; `at` is the signed
 * time, in microseconds since 1970 (UTC).
 */
export interface Signature {
  key: string;
  value: string;
  at: number;
}

/** The state of a conversation, its settings, and the effects that are due. */
export interface State {
  conversation: string;
  position: number;
  state: JsonObject;
  settings: JsonObject;
  /**
   * Each lane's next step, by its address: `do` is call_model, run_tools, ask_approval, wait or
   * stop.
   */
  decisions: Record<string, JsonObject>;
  /** The model calls and tool calls among them, one by one, as they can be claimed. */
  effects: Effect[];
}

/** A command, appended if the conversation's state allows it. */
export type SubmitParams = (EventToWrite) & {
  conversation: string;
  /** The id of the command's entry, so that the call may be repeated. */
  id?: string | null;
};

/** The entries after `after`; if there are none yet, those that come within `wait` seconds. */
export interface TailParams {
  conversation: string;
  after: number;
  wait?: number;
  limit?: number;
}

/**
 * Plain text, as it was said.
 *
 * `phase` is OpenAI's word for the message that it is of (`commentary`, `final_answer`). `raw`
 * is what else its `provider` gave, such as citations: a JSON object of those fields, or the
 * whole block if it has a `type`. It goes back only to that provider.
 */
export interface TextPart {
  text: string;
  type: "text";
  phase?: string;
  provider?: string;
  raw?: string;
}

/** The items that a user interface shows. */
export interface Timeline {
  conversation: string;
  position: number;
  items: JsonObject[];
}

/**
 * A tool that an agent may call. `parameters` is its JSON Schema, of type object.
 *
 * `raw` is what else its `provider` takes, such as `defer_loading`: a JSON object of those
 * fields, or the whole declaration, with its `type`, of a tool of the provider's own. Other
 * providers are not sent it.
 */
export interface Tool {
  name: string;
  description?: string;
  parameters?: JsonObject;
  approval?: boolean;
  ends_run?: boolean;
  strict?: boolean | null;
  provider?: string;
  raw?: string;
}

/**
 * A call of a tool.
 *
 * `arguments` is the provider's raw string; an object is dumped compact, in its own order. Ids
 * repeat in real logs: the call is known by its entry and index.
 *
 * `namespace` separates tools of one name. `form` is the provider's word for a call of no
 * function: `custom`, whose input is any text, or `tool_search`. `raw` is what else its
 * `provider` gave, such as the program that made the call, as in a `TextPart`.
 */
export interface ToolCall {
  type: "tool_call";
  id: string;
  name: string;
  arguments?: string;
  namespace?: string;
  form?: string;
  provider?: string;
  raw?: string;
}

/**
 * A question that a running tool asks a person.
 *
 * `choices` are the answers to choose from; empty: any. `expects` is the JSON Schema of the
 * answer; empty: a text.
 */
export interface ToolQuestion {
  text: string;
  choices?: string[];
  expects?: JsonObject;
}

/** The result of a tool call. */
export interface ToolResult {
  /** The application's own data, a JSON object. Its first key is the application's name. */
  meta?: JsonObject;
  /** Words of the application, such as "draft". */
  tags?: string[];
  /** The workflow run that the event belongs to. */
  run?: string;
  /** The node of that run. */
  node?: string;
  /** false: the event is only for the timeline and is never sent to a model. */
  in_context?: boolean;
  /** The record of another program that the event was imported from. */
  source?: Origin | null;
  /** The provider's id of the call, as it came. */
  call_id: string;
  /** The call itself. null: the nearest call of that id without a result. */
  call?: CallRef | null;
  /** The addresses that a result without a call is for; empty: for everyone. */
  to?: string[];
  /** The name of the tool. */
  name?: string;
  /** Texts, images and files, in order. */
  parts?: (TextPart | ImagePart | FilePart | ProviderPart)[];
  /** true: the tool failed, and the parts say how. */
  is_error?: boolean;
  /** The sha256 of the whole content, if the parts hold only a preview. */
  blob?: string;
  /** Milliseconds that the tool took. */
  duration_ms?: number | null;
}

/** The engine's steps: for each entry the lanes that it changed, from which status to which. */
export interface Transitions {
  conversation: string;
  transitions: JsonObject[];
}

/** The steps of the entries after `after`. */
export interface TransitionsParams {
  conversation: string;
  at?: number | null;
  after?: number;
}

/** The rule that gives the turn when a message names no agent: its name and its options. */
export interface TurnPolicy {
  rule: string;
  options?: JsonObject;
}

/**
 * Tokens, as the provider counted them. `input` counts what was read from the cache too.
 *
 * `cost` is the price of the call in micro-dollars, if the provider or the agent states one.
 * `cache_write_hour` is the part of `cache_write` that is kept for an hour; Anthropic bills it
 * higher. `cache_verdict` is the provider's own reason for a cache miss, such as
 * `tools_changed`; `cache_missed` are the tokens that it names with it.
 */
export interface Usage {
  input?: number;
  output?: number;
  cache_read?: number;
  cache_write?: number;
  reasoning?: number;
  cost?: number | null;
  cache_write_hour?: number;
  cache_verdict?: string;
  cache_missed?: number;
}

/**
 * Words that come from outside: from a person, the system, a schedule, or an agent that briefs
 * another.
 */
export interface UserMessage {
  /** The application's own data, a JSON object. Its first key is the application's name. */
  meta?: JsonObject;
  /** Words of the application, such as "draft". */
  tags?: string[];
  /** The workflow run that the event belongs to. */
  run?: string;
  /** The node of that run. */
  node?: string;
  /** false: the event is only for the timeline and is never sent to a model. */
  in_context?: boolean;
  /** The record of another program that the event was imported from. */
  source?: Origin | null;
  /** Texts, images and files, in order. */
  parts?: (TextPart | ImagePart | FilePart | ProviderPart)[];
  /** The name of the person or program. */
  author?: string;
  /** Who the author is: "person", "system", "schedule" or "agent". */
  author_kind?: "person" | "system" | "schedule" | "agent";
  /** The addresses that it is for, `agent` or `agent/task`; empty: for everyone. */
  to?: string[];
  /** A command to the engine, such as an approval. */
  control?: Control | null;
  /** The position that led to it, if an agent or a schedule is the author. */
  cause?: number | null;
  /** The position of the message that this one edits. */
  replaces?: number | null;
}

/** The claims that were taken. */
export interface Work {
  position: number;
  claimed: Claimed[];
  /** The number of effects that other runners have claimed. */
  held: number;
  /** The seconds until the next effect is due; null: none is planned. */
  due: number | null;
}

/** A workflow run: its id, its directive, and the brief and context of the node it is at. */
export interface WorkflowRun {
  id: string;
  directive?: string;
  node?: string;
  brief?: string;
  context?: string;
}

/** The entries that were written, now or before under the same ids. */
export interface WrittenEntries {
  /** The position of the last of them; if there is none, that of the conversation. */
  position: number;
  entries: Entry[];
}

/** The methods of the service, with what each takes and returns. */
export interface Methods {
  about: { params: Nothing; result: About };
  conversations: { params: ConversationsParams; result: Conversations };
  append: { params: AppendParams; result: WrittenEntries };
  submit: { params: SubmitParams; result: WrittenEntries };
  join: { params: JoinParams; result: Joined };
  request: { params: RequestParams; result: AgentRequest };
  answer: { params: AnswerParams; result: WrittenEntries };
  entries: { params: EntriesParams; result: Entries };
  tail: { params: TailParams; result: Entries };
  state: { params: AtParams; result: State };
  timeline: { params: AtParams; result: Timeline };
  transitions: { params: TransitionsParams; result: Transitions };
  search: { params: SearchParams; result: Hits };
  output: { params: OutputParams; result: OutputText };
  fork: { params: ForkParams; result: Forked };
  claim: { params: ClaimParams; result: Work };
  settle: { params: SettleParams; result: WrittenEntries };
  draft: { params: DraftParams; result: Nothing };
  release: { params: FenceParams; result: Nothing };
  renew: { params: RenewParams; result: Nothing };
  claims: { params: ClaimsParams; result: OpenClaims };
  put_blob: { params: Blob; result: BlobParams };
  blob: { params: BlobParams; result: Blob };
}
