export { Client, Job } from "./client.js";
export { StenologError } from "./errors.js";
export { Http } from "./http.js";
export { Stdio, type StdioOptions } from "./stdio.js";
export type { Transport } from "./transport.js";
export type * from "./types.js";
