import { setTimeout as sleep } from "node:timers/promises";

import { lost, StenologError, type ErrorData } from "./errors.js";
import { encode, MOST_ATTEMPTS, type Transport } from "./transport.js";
import type { Entry, TailParams } from "./types.js";

/** The milliseconds before a first repetition; each further one waits twice as long. */
const PAUSE = 250;
const LONGEST_PAUSE = 10_000;

/** A service that others have started. */
export class Http implements Transport {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #closing = new AbortController();

  constructor(url: string, token: string) {
    this.#url = url.replace(/\/$/, "");
    this.#headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  }

  async call(method: string, params: object, isRepeatable: boolean): Promise<unknown> {
    if (this.#closing.signal.aborted) throw lost("the client is closed");
    const body = encode(params);
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await this.#fetch(`/v1/${method}`, { method: "POST", body });
        return JSON.parse(await answer.text());
      } catch (error) {
        if (error instanceof StenologError) throw error;
        if (!isRepeatable || attempt === MOST_ATTEMPTS) {
          throw lost(`${method}: no answer of ${this.#url}`, error);
        }
      }
      await this.#pause(attempt);
    }
  }

  async *tail(params: TailParams, signal?: AbortSignal): AsyncGenerator<Entry, void, void> {
    const ending = AbortSignal.any([this.#closing.signal, ...(signal ? [signal] : [])]);
    const left = new AbortController();
    let after = params.after;
    try {
      for (let attempt = 1; !ending.aborted; attempt++) {
        const query = new URLSearchParams({ conversation: params.conversation, after: `${after}` });
        try {
          const answer = await this.#fetch(`/v1/tail?${query}`, {
            signal: AbortSignal.any([ending, left.signal]),
          });
          for await (const entry of entriesOf(answer)) {
            yield entry;
            after = entry.position;
            attempt = 0;
          }
        } catch (error) {
          if (error instanceof StenologError) throw error;
        }
        await this.#pause(attempt, ending);
      }
    } finally {
      left.abort();
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
  }

  /** Return a good answer. Throws `StenologError` for what the service refuses. */
  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const answer = await fetch(this.#url + path, { ...init, headers: this.#headers });
    if (answer.ok) return answer;
    const text = await answer.text();
    throw new StenologError(errorIn(text) ?? { type: "HttpError", message: `${answer.status}: ${text}` });
  }

  async #pause(attempt: number, signal = this.#closing.signal): Promise<void> {
    const pause = Math.min(PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE);
    await sleep(pause, undefined, { signal }).catch(() => {});
  }
}

function errorIn(text: string): ErrorData | undefined {
  try {
    return (JSON.parse(text) as { error: ErrorData }).error;
  } catch {
    return undefined;
  }
}

/** Yield the entries of a stream of server-sent events, each of them in one line of data. */
async function* entriesOf(answer: Response): AsyncGenerator<Entry, void, void> {
  let line: string[] = [];
  for await (const text of (answer.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
    const [rest, ...begun] = text.split("\n");
    line.push(rest ?? "");
    for (const next of begun) {
      const whole = line.join("");
      line = [next];
      if (whole.startsWith("data: ")) yield JSON.parse(whole.slice("data: ".length)) as Entry;
    }
  }
}
