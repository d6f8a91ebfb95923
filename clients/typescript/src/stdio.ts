import { spawn, type ChildProcessByStdio } from "node:child_process";
import type { Readable, Writable } from "node:stream";

import { lost, StenologError, type ErrorData } from "./errors.js";
import { encode, MOST_ATTEMPTS, type Transport } from "./transport.js";
import type { Entries, Entry, TailParams } from "./types.js";

/** How to start a service. */
export interface StdioOptions {
  /** The database; else that of the command line. */
  db?: string;
  /** The program and its arguments, before `serve --stdio`: ["stenolog"]. */
  command?: readonly string[];
  /** The environment of the service; else that of this process. */
  env?: NodeJS.ProcessEnv;
}

interface Pending {
  line: string;
  attempts: number;
  isRepeatable: boolean;
  resolve(result: unknown): void;
  reject(error: StenologError): void;
}

interface Answer {
  id: number | null;
  result?: unknown;
  error?: { data: ErrorData };
}

type Service = ChildProcessByStdio<Writable, Readable, null>;

/**
 * A service of one's own, as a child process. Its stderr is that of this process.
 *
 * It starts with the first call. Where it dies, another one is started, and sent what was not answered.
 */
export class Stdio implements Transport {
  readonly #options: StdioOptions;
  readonly #pending = new Map<number, Pending>();
  #service: Service | undefined;
  #ended: Promise<void> = Promise.resolve();
  #last = 0;
  #isClosed = false;

  constructor(options: StdioOptions = {}) {
    this.#options = options;
  }

  async call(method: string, params: object, isRepeatable: boolean): Promise<unknown> {
    if (this.#isClosed) throw lost("the client is closed");
    const id = ++this.#last;
    const line = `${encode({ jsonrpc: "2.0", id, method, params })}\n`;
    return new Promise((resolve, reject) => {
      const call = { line, attempts: 0, isRepeatable, resolve, reject };
      this.#pending.set(id, call);
      this.#send(call);
    });
  }

  async *tail(params: TailParams, signal?: AbortSignal): AsyncGenerator<Entry, void, void> {
    let after = params.after;
    const aborted = new Promise<null>((resolve) => signal?.addEventListener("abort", () => resolve(null)));
    while (!this.#isClosed && !signal?.aborted) {
      const found = this.call("tail", { ...params, after }, true) as Promise<Entries>;
      for (const entry of (await Promise.race([found, aborted]))?.entries ?? []) {
        yield entry;
        after = entry.position;
      }
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#service?.stdin.end();
    await this.#ended;
  }

  #send(call: Pending): void {
    this.#service ??= this.#start();
    call.attempts += 1;
    this.#service.stdin.write(call.line);
  }

  #start(): Service {
    const { command = ["stenolog"], db, env = process.env } = this.#options;
    const [program = "stenolog", ...rest] = command;
    const named = db === undefined ? [] : ["--db", db];
    const service = spawn(program, [...rest, "serve", "--stdio", ...named], {
      stdio: ["pipe", "pipe", "inherit"],
      env,
    });
    let reason: unknown;
    service.on("error", (error) => (reason = error));
    service.stdin.on("error", () => {}); // It is gone, and "close" follows.
    let line: string[] = [];
    service.stdout.setEncoding("utf8").on("data", (text: string) => {
      const [rest, ...begun] = text.split("\n");
      line.push(rest ?? "");
      for (const next of begun) {
        this.#take(line.join(""));
        line = [next];
      }
    });
    this.#ended = new Promise((resolve) =>
      service.on("close", (code, signal) => {
        this.#service = undefined;
        this.#sendAgain(reason ?? `the service ended with ${signal ?? `exit code ${code}`}`);
        resolve();
      }),
    );
    return service;
  }

  /** Take a line of the service. */
  #take(line: string): void {
    const answer = parsed(line);
    // A program around the service may print too.
    if (answer === undefined) return void process.stderr.write(`${line}\n`);
    const { id, result, error } = answer;
    // An error of no call is one of the line that was sent, and nobody can say which it was.
    for (const each of id === null ? [...this.#pending.keys()] : [id]) {
      const call = this.#pending.get(each);
      this.#pending.delete(each);
      if (error === undefined) call?.resolve(result);
      else call?.reject(new StenologError(error.data));
    }
  }

  /** Send to a new service what the last one has left unanswered. */
  #sendAgain(reason: unknown): void {
    const isHopeless = this.#isClosed || reason instanceof Error;
    for (const [id, call] of [...this.#pending]) {
      if (!isHopeless && call.isRepeatable && call.attempts < MOST_ATTEMPTS) {
        this.#send(call);
      } else {
        this.#pending.delete(id);
        call.reject(lost(reason instanceof Error ? reason.message : String(reason), reason));
      }
    }
  }
}

function parsed(line: string): Answer | undefined {
  try {
    return JSON.parse(line) as Answer;
  } catch {
    return undefined;
  }
}
