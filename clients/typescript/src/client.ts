import { randomUUID } from "node:crypto";

import { Http } from "./http.js";
import { ServiceMethods } from "./methods.js";
import { Stdio, type StdioOptions } from "./stdio.js";
import type { Transport } from "./transport.js";
import type { Claimed, ClaimParams, Entry, FenceParams, Methods, NewEvent, Outcome, WrittenEntries } from "./types.js";

/** A log, served. Each method of the service is one of the client; see `examples/agent.ts`. */
export class Client extends ServiceMethods {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    super();
    this.#transport = transport;
  }

  /** Return a client of a service of its own, a child process. */
  static stdio(options: StdioOptions = {}): Client {
    return new Client(new Stdio(options));
  }

  /** Return a client of a service that runs at an address. */
  static http(url: string, token: string): Client {
    return new Client(new Http(url, token));
  }

  /** Call a method. What it writes has ids before it is sent, so that a repeated call writes once. */
  async call<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
    const named = withIds(method, params);
    const result = await this.#transport.call(method, named, isRepeatable(method, named));
    return result as Methods[M]["result"];
  }

  /**
   * Yield the entries behind `after`, and each one that comes, none twice, until `signal` is aborted or the
   * client is closed. A connection that is lost is made again.
   */
  tail(conversation: string, after = 0, signal?: AbortSignal): AsyncGenerator<Entry, void, void> {
    return this.#transport.tail({ conversation, after }, signal);
  }

  /**
   * Yield the model calls and tool calls that are due, each claimed; `settle` tells the outcome, at once or later.
   *
   * Without a `signal` it ends when nothing is due or under way; with one, when it is aborted.
   */
  async *work(params: ClaimParams, signal?: AbortSignal): AsyncGenerator<Job, void, void> {
    const { owner = randomUUID(), lease = 60 } = params;
    const atWork = new Set<number>();
    // Over HTTP the claims of an owner lapse that is silent, as in a long model call.
    const renewing = setInterval(() => void this.renew({ owner, lease }).catch(() => {}), lease * 400);
    try {
      for (let wait = 0; !signal?.aborted; ) {
        const found = await this.claim({ ...params, owner, lease, wait, limit: 1, at_work: [...atWork] });
        for (const claimed of found.claimed) {
          const where = { conversation: params.conversation, owner, fence: claimed.fence };
          const job = new Job(this, where, claimed, atWork);
          if (signal?.aborted) await job.release();
          else yield job;
        }
        const isQuiet = found.claimed.length === 0;
        if (isQuiet && !signal && !found.held && !atWork.size && found.due === null) return;
        wait = isQuiet ? params.wait || 10 : 0;
      }
    } finally {
      clearInterval(renewing);
    }
  }

  /** End the client; what was called is answered before. */
  close(): Promise<void> {
    return this.#transport.close();
  }
}

/** A claimed model call (with its `request`) or tool call (with its `call`). */
export class Job {
  constructor(
    private readonly client: Client,
    private readonly where: FenceParams,
    readonly claimed: Claimed,
    private readonly atWork: Set<number>,
  ) {
    atWork.add(where.fence);
  }

  /** Tell the outcome, which ends the claim. */
  async settle(outcome: Outcome): Promise<WrittenEntries> {
    const written = await this.client.settle({ ...this.where, outcome });
    this.atWork.delete(this.where.fence);
    return written;
  }

  /** Keep text that has streamed: if this program dies, the log has it. */
  async draft(text: string): Promise<void> {
    await this.client.draft({ ...this.where, text });
  }

  /** Let it go, where it was not begun or may be begun again. */
  async release(): Promise<void> {
    await this.client.release(this.where);
    this.atWork.delete(this.where.fence);
  }
}

function withIds<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Methods[M]["params"] {
  switch (method) {
    case "append": {
      const { events, ...rest } = params as Methods["append"]["params"];
      return { ...rest, events: events.map((event): NewEvent => ({ ...event, id: event.id ?? randomUUID() })) };
    }
    case "answer":
    case "settle":
    case "submit":
      return { ...params, id: (params as { id?: string | null }).id ?? randomUUID() };
    default:
      return params;
  }
}

/** Return whether a call that is done twice has done the same as once. */
function isRepeatable(method: keyof Methods, params: object): boolean {
  if (method === "fork") return "name" in params;
  if (method === "claim") return "at_work" in params;
  return method !== "draft" && method !== "release";
}
