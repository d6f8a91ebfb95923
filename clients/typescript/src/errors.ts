/** An error of the service or of the way to it. */
export class StenologError extends Error {
  /** The name of Python's class, such as "VersionConflictError"; "ConnectionError" where no answer came. */
  readonly type: string;
  /** Of a version conflict: the position that was expected. */
  readonly expected: number | undefined;
  /** Of a version conflict: the position that was found. */
  readonly found: number | undefined;

  constructor(told: ErrorData, options?: ErrorOptions) {
    super(told.message, options);
    this.name = told.type;
    this.type = told.type;
    this.expected = told.expected;
    this.found = told.found;
  }
}

/** An error as the service tells it. */
export interface ErrorData {
  type: string;
  message: string;
  expected?: number;
  found?: number;
}

/** Return the error of a service that cannot be reached, or went before it answered. */
export function lost(message: string, cause?: unknown): StenologError {
  return new StenologError({ type: "ConnectionError", message }, { cause });
}
