import { StenologError } from "./errors.js";
import type { Entry, TailParams } from "./types.js";

/** The way to a service. */
export interface Transport {
  /**
   * Call a method. `isRepeatable`: where no answer comes it is sent again, since it writes once.
   *
   * Throws `StenologError`.
   */
  call(method: string, params: object, isRepeatable: boolean): Promise<unknown>;
  /** Yield the entries behind a position, and each one that comes, until `signal` is aborted. */
  tail(params: TailParams, signal?: AbortSignal): AsyncGenerator<Entry, void, void>;
  /** End it in good order. */
  close(): Promise<void>;
}

/** How often a call is sent before it fails. */
export const MOST_ATTEMPTS = 5;

/** Return a value as JSON in UTF-8. Throws `StenologError` for half of a surrogate pair, which has no bytes. */
export function encode(value: object): string {
  const text = JSON.stringify(value);
  // JSON.stringify escapes such a half, and little else that looks so.
  if (/\\ud[89a-f]/.test(text)) JSON.stringify(value, refuseLoneSurrogates);
  return text;
}

function refuseLoneSurrogates(key: string, value: unknown): unknown {
  for (const text of [key, value]) {
    if (typeof text === "string" && !text.isWellFormed()) {
      const found = JSON.stringify(text.slice(0, 60));
      throw new StenologError({
        type: "InvalidParamsError",
        message: `${key}: expected text that is Unicode, found a lone surrogate in ${found}`,
      });
    }
  }
  return value;
}
