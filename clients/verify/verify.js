// Check a stenolog evidence pack, in a browser or with node. docs/reference/evidence.md has the format.
//
//     node verify.js PACK [--head HEAD] [--key KEY] [--log-head HEAD] [--json]
//
// No library and no network. `verify_evidence.py` is the same in Python; the tests compare both.
"use strict";

// The kinds of lines: their part of the pack, and their fields in order.
const PARTS = new Map(
  `0 evidence conversation entries head streams from to time program statement log_head
1 record stream what value parent salt name previous digest
1 record stream what value parent content previous digest
2 blob base64
2 position id at topic salt payload digest
2 position id at topic size withheld digest
2 position id at topic size erased payload digest
3 request sources body sent
4 heads
5 signature key by of
6 anchor of name answer
7 end sha256`
    .split("\n")
    .map((line) => [line.slice(2), Number(line[0])]),
);

// What a field holds, of which the form is known to be canonical; any text if it is not named here.
const isText = (value) => typeof value === "string" && !/\p{Surrogate}/u.test(value);
const isNumber = (value) => Number.isInteger(value) && value >= 0 && value < 9e15;
const isHex = (...lengths) => (value) => isText(value) && lengths.includes(value.length) && /^[0-9a-f]*$/.test(value);
const isList = (value, isItem) => Array.isArray(value) && value.every(isItem);
const isRow = (...checks) => (row) => isList(row, (value, at) => checks[at]?.(value)) && row.length === checks.length;
const areRows = (...checks) => (rows) => isList(rows, isRow(...checks)) && rows.length > 0;
const FIELDS = new Map(
  Object.entries({
    "evidence entries from to time record stream value parent position at size request end": isNumber,
    "head digest content blob withheld erased key of sha256": isHex(64),
    previous: isHex(0, 64),
    salt: isHex(0, 32),
    signature: isHex(128),
    "id topic what by": (value) => isText(value) && !value.includes("\n"),
    streams: areRows(isNumber, isNumber),
    sources: (value) => isList(value, isNumber),
    heads: areRows(isNumber, isNumber, isHex(64)),
  }).flatMap(([names, check]) => names.split(" ").map((name) => [name, check])),
);

class Refused extends Error {} // its message is the name of the check that failed

function need(holds, check) {
  if (!holds) throw new Refused(check);
}

const encode = (text) => new TextEncoder().encode(text);
const decode = (bytes) => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
const BEGIN = encode('{"evidence":1,');
const bytesOf = (hex) => Uint8Array.from({ length: hex.length / 2 }, (_, at) => parseInt(hex.slice(2 * at, 2 * at + 2), 16));
const rises = (numbers) => numbers.every((number, at) => at === 0 || numbers[at - 1] < number);

// SHA-256 (FIPS 180-4). WebCrypto has it too, but not bit by bit, and only where a page is trusted.
const primes = [];
for (let number = 2; primes.length < 64; number++) if (primes.every((prime) => number % prime)) primes.push(number);
const fraction = (number) => Math.floor((number - Math.floor(number)) * 2 ** 32) | 0;
const ROUNDS = Int32Array.from(primes, (prime) => fraction(Math.cbrt(prime)));
const START = Int32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));

class Sha256 {
  state = START.slice();
  block = new Uint8Array(64);
  words = new Int32Array(64);
  length = 0;

  update(bytes) {
    let at = 0;
    const used = this.length % 64;
    this.length += bytes.length;
    if (used) {
      at = Math.min(64 - used, bytes.length);
      this.block.set(bytes.subarray(0, at), used);
      if (used + at < 64) return this;
      this.compress(this.block, 0);
    }
    for (; at + 64 <= bytes.length; at += 64) this.compress(bytes, at);
    this.block.set(bytes.subarray(at));
    return this;
  }

  compress(bytes, at) {
    const { words, state } = this;
    for (let i = 0; i < 16; i++, at += 4)
      words[i] = (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3];
    for (let i = 16; i < 64; i++) {
      const x = words[i - 15], y = words[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      words[i] = (words[i - 16] + s0 + words[i - 7] + s1) | 0;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const one = (h + s1 + ((e & f) ^ (~e & g)) + ROUNDS[i] + words[i]) | 0;
      const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g; g = f; f = e; e = (d + one) | 0;
      d = c; c = b; b = a; a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] += word));
  }

  hex() { // of what came so far; more may follow
    const copy = Object.assign(new Sha256(), { state: this.state.slice(), block: this.block.slice(), length: this.length });
    const padding = new Uint8Array(((119 - (this.length % 64)) % 64) + 9);
    padding[0] = 128;
    new DataView(padding.buffer).setBigUint64(padding.length - 8, BigInt(this.length) * 8n);
    copy.update(padding);
    return Array.from(copy.state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }
}

// The sha256 of parts: bytes, hexadecimal digits, or a list of values that line feeds end.
const hashed = (...parts) => hashedAll(parts);

function hashedAll(parts) {
  const sum = new Sha256();
  for (const part of parts) {
    if (Array.isArray(part)) sum.update(encode(part.map((value) => `${value}\n`).join("")));
    else sum.update(typeof part === "string" ? bytesOf(part) : part);
  }
  return sum.hex();
}

function base64(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  let again = "";
  for (let at = 0; at < bytes.length; at += 3072) again += btoa(String.fromCharCode(...bytes.subarray(at, at + 3072)));
  need(again === text, "form");
  return bytes;
}

// The values of a line, which must be in canonical form.
function parsed(raw) {
  try {
    const text = decode(raw);
    const line = JSON.parse(text);
    need(typeof line === "object" && line !== null && !Array.isArray(line), "form");
    need(PARTS.has(Object.keys(line).join(" ")) && `${JSON.stringify(line)}\n` === text, "form");
    for (const [name, value] of Object.entries(line)) {
      need((FIELDS.get(name) ?? isText)(value), "form");
      if (name === "base64" || name === "answer") line[name] = base64(value);
    }
    return line;
  } catch {
    throw new Refused("form");
  }
}

async function isSignature(signature, key, text) {
  const { subtle } = globalThis.crypto ?? {};
  if (!subtle) return undefined;
  try {
    const known = await subtle.importKey("raw", bytesOf(key), "Ed25519", false, ["verify"]);
    return await subtle.verify("Ed25519", known, bytesOf(signature), encode(text));
  } catch (error) {
    return error.name === "NotSupportedError" || error.name === "SyntaxError" ? undefined : false;
  }
}

// A pack that is read line by line.
class Pack {
  lines = 0; part = -1; unchecked = 0; all = new Sha256(); of = ""; log_head = "";
  records = 0; record = 0; chained = ""; history = new Map();
  position = 0; digest = ""; times = []; unnamed = []; receipts = new Map();
  withheld = new Set(); erased = []; blobs = new Set(); requests = []; signed = [];

  constructor(...wanted) {
    [this.wantedHead, this.wantedKey, this.wantedLog] = wanted.map((one) => one?.toLowerCase());
  }

  // Check the next line by the method that its first field names. Returns a promise if that takes one.
  read(raw) {
    this.lines++;
    need(this.part < 7, "end");
    need(raw[raw.length - 1] === 10, "form");
    const line = parsed(raw), names = Object.keys(line), before = this.part;
    this.part = PARTS.get(names.join(" "));
    this.kind = names[0];
    if (before < 0) this.said = line;
    need(this.part > before || (this.part === before && ![0, 4].includes(before)), "order");
    need((this.position === this.said.entries) === this.part > 2, "order");
    if (before < 2 && this.part >= 2) this.checkLineage();
    if (before < 3 && this.part >= 3) {
      need(this.times[0] === this.said.from && this.times.at(-1) === this.said.to, "head");
      need(this.said.head === this.digest && (this.wantedHead ?? this.digest) === this.digest, "head");
    }
    if (before < 5 && this.part >= 5) this.of = this.all.hex();
    need(![5, 6].includes(this.part) || line.of === this.of, "content");
    const later = this.part ? this[`check_${this.kind}`](line) : undefined;
    this.all.update(raw);
    return later;
  }

  check_record({ record, stream, what, value, parent, salt, name, content, previous, digest }) {
    const after = this.chained;
    content ??= hashed(salt, encode(name));
    this.chained = hashed(previous, [record, stream, what, value, parent], content);
    need(salt === undefined || !salt === !name, "record");
    need(record === this.record + 1 ? previous === after : record > this.record && previous, "record");
    need(this.chained === digest, "record");
    this.record = record;
    this.records++;
    const kind = what === "forked" ? "begun" : what;
    this.history.set(`${kind} ${stream} ${what === "erased" ? value : 0}`, { record, name, what, parent, value });
  }

  checkLineage() {
    const { streams, conversation } = this.said;
    streams.forEach(([stream, first], at) => {
      const found = this.history.get(`begun ${stream} 0`);
      need(found?.what === (at ? "forked" : "begun") && (at || found.value === 0), "lineage");
      need(found.parent === (streams[at - 1]?.[0] ?? 0), "lineage");
      need(first === Math.min(found.value + 1, streams[at + 1]?.[1] ?? Infinity), "lineage");
    });
    const named = ["begun", "renamed"].map((what) => this.history.get(`${what} ${streams.at(-1)[0]} 0`));
    const newest = named.reduce((one, two) => ((two?.record ?? 0) > (one?.record ?? 0) ? two : one));
    need(newest?.name === conversation && streams[0][1] === 1, "lineage");
  }

  check_blob({ blob, base64 }) {
    need(hashed(base64) === blob && !this.blobs.has(blob), "blob");
    this.blobs.add(blob);
    this.unnamed.push(blob);
  }

  check_position({ position, id, at, topic, size, salt, payload = "", withheld, erased, digest }) {
    const state = encode(payload), isShown = salt !== undefined;
    const content = isShown ? hashed(salt, state) : (withheld ?? erased);
    this.digest = hashed(this.digest, [position, id, at, topic, size ?? state.length], content);
    need(position === this.position + 1 && digest === this.digest, "entry");
    this.position = position;
    this.times = [this.times[0] ?? at, at];
    if (erased !== undefined) {
      const found = this.history.get(`erased ${this.stream()} ${position}`);
      need(found?.name === (payload && hashed(state)), "erasure");
    }
    need(this.unnamed.every((blob) => isShown && payload.includes(blob)), "blob");
    this.unnamed = [];
    if (withheld !== undefined) this.withheld.add(position);
    if (erased !== undefined) this.erased.push(position);
    if (isShown && payload.includes('"receipt"')) this.receipts.set(position, payload);
  }

  stream() {
    return this.said.streams.filter(([, first]) => first <= this.position).at(-1)[0];
  }

  check_request({ request, sources, body, sent }) {
    let receipt = {};
    try {
      receipt = JSON.parse(this.receipts.get(request)).receipt;
      need(hashed(encode(body)) === receipt.sha256 && (!sent || hashed(encode(sent)) === receipt.sent), "request");
    } catch {
      throw new Refused("request");
    }
    need(rises([0, ...sources, request]) && !sources.some((one) => this.withheld.has(one)), "request");
    need(request > (this.requests.at(-1) ?? 0), "request");
    this.requests.push(request);
  }

  check_heads({ heads }) {
    const newest = this.said.log_head.split("-")[1], own = JSON.stringify([this.stream(), this.position, this.digest]);
    const rows = heads.flatMap(([stream, position, digest]) => [[stream, position], digest]);
    const total = hashedAll([[this.record, newest], this.chained, ...rows]);
    need(/^(0|[1-9][0-9]{0,14}|[1-8][0-9]{15})$/.test(newest), "log_head");
    need(this.said.log_head === `${this.record}-${newest}-${total}`, "log_head");
    need(this.record === this.records && rises(heads.map(([stream]) => stream)), "log_head");
    need(heads.some((row) => JSON.stringify(row) === own), "log_head");
    this.log_head = this.said.log_head;
  }

  async check_signature({ signature, key, by, of }) {
    const line = this.lines;
    this.signed.push([key, by]);
    const isGood = await isSignature(signature, key, `stenolog evidence 1\n${by}\n${of}`);
    need(isGood !== false, "signature");
    if (isGood === undefined) this.unchecked ||= line;
  }

  check_anchor({ anchor, of, answer }) {
    const bytes = bytesOf(of);
    const isAt = (start) => bytes.every((byte, at) => answer[start + at] === byte);
    let found = anchor === "rfc3161" ? answer.indexOf(bytes[0]) : 0;
    while (found >= 0 && anchor === "rfc3161" && !isAt(found)) found = answer.indexOf(bytes[0], found + 1);
    need(found >= 0, "anchor");
  }

  check_end({ end, sha256 }) {
    need(end === this.lines - 1 && sha256 === this.all.hex(), "end");
    need((this.wantedLog ?? null) === null || (this.log_head && this.log_head === this.wantedLog), "log_head");
    need((this.wantedKey ?? null) === null || this.signed.some(([key]) => key === this.wantedKey), "key");
  }
}

// The lines of a file that comes in pieces, each with its line feed and its place.
async function* linesOf(pieces) {
  let begun = [], at = 0;
  for await (const piece of pieces) {
    let from = 0;
    for (let end; (end = piece.indexOf(10, from)) >= 0; from = end + 1) {
      begun.push(piece.subarray(from, end + 1));
      const line = begun.length > 1 ? joined(begun) : begun[0];
      begun = [];
      yield [line, at];
      at += line.length;
    }
    if (from < piece.length) begun.push(piece.subarray(from));
  }
  if (begun.length) yield [joined(begun), at];
}

function joined(pieces) {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  pieces.reduce((at, piece) => (whole.set(piece, at), at + piece.length), 0);
  return whole;
}

// The verdict on a pack whose bytes come in pieces: exit, check, line, and what it shows.
// `seen` is called for each checked line: its kind, and its place and length in the file.
async function verify(pieces, { head, key, log_head: wantedLog, seen = () => {} } = {}) {
  const pack = new Pack(head, key, wantedLog);
  try {
    for await (const [line, at] of linesOf(pieces)) {
      if (!pack.lines && !BEGIN.every((byte, at) => line[at] === byte)) break;
      const later = pack.read(line);
      if (later) await later;
      seen(pack.kind, at, line.length);
    }
    if (!pack.lines) return { exit: 2, check: "pack", line: 1 };
    pack.lines++;
    need(pack.part === 7, "end");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { exit: 1, check: error.message, line: pack.lines };
  }
  const { unchecked, said, withheld, erased, requests, signed, log_head } = pack;
  const verdict = unchecked ? { exit: 3, check: "signature", line: unchecked } : { exit: 0, check: "", line: 0 };
  const { conversation, entries } = said;
  return { ...verdict, conversation, entries, head: said.head, withheld: [...withheld], erased, requests, signed, log_head };
}

globalThis.stenologEvidence = { verify };

if (typeof module !== "undefined") {
  module.exports = { verify };
  if (require.main === module) main();
}

function told({ exit, check, line, conversation, entries, ...more }, isBound) {
  const verified = `verified: entries 1 to ${entries} of ${JSON.stringify(conversation)}`;
  const unsigned = `${verified}, but for the signature in line ${line}`;
  const facts = Object.entries(more).map(([name, value]) => `  ${name}: ${JSON.stringify(value)}`);
  if (facts.length && !isBound) facts.push("  names and erasures: the producer's word");
  return [[verified, `refused: ${check}, line ${line}`, "not a pack", unsigned][exit], ...facts];
}

async function main() {
  try {
    const text = { type: "string" };
    const options = { head: text, key: text, "log-head": text, json: { type: "boolean" } };
    const { values, positionals } = require("util").parseArgs({ allowPositionals: true, options });
    if (positionals.length !== 1) throw new Error("expected verify.js PACK [--head HEAD] [--key KEY] [--log-head HEAD] [--json]");
    const wanted = { ...values, log_head: values["log-head"] };
    const verdict = await verify(require("fs").createReadStream(positionals[0]), wanted);
    const isBound = wanted.log_head || (values.key && verdict.exit === 0);
    process.stdout.on("error", () => {}); // a reader such as head has enough
    console.log(values.json ? JSON.stringify(verdict) : told(verdict, isBound).join("\n"));
    process.exitCode = verdict.exit;
  } catch (error) {
    console.error(error.message);
    process.exitCode = 2;
  }
}
