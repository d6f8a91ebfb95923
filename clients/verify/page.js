// The page of verify.html: it shows what verify.js found. Texts of a pack are set as text, never as markup.
"use strict";
{
  const PAGE = 100; // items that are shown at a time
  const PIECE = 1 << 20; // bytes that are checked at a time; between two the page stays usable
  const SHOWN_CHARACTERS = 200_000; // of one text
  const MEANINGS = {
    pack: "The file is not an evidence pack of version 1.",
    end: "The last line does not fit the bytes before it: something was cut off, added or changed.",
    form: "The line is not in the one form that its values can have.",
    order: "The line is not in its place, or entries are missing.",
    record: "The record of the history is not what was recorded, or not in its place.",
    lineage: "The history does not say that this conversation was begun, forked or named so.",
    entry: "The entry is not what was recorded: its text, time, kind, size or place was changed.",
    erasure: "The entry's content is missing, and no record of an erasure accounts for it.",
    blob: "The file is not the one that the entry names.",
    head: "The entries do not end at the head that was expected.",
    request: "The request is not the one that the answer's receipt names.",
    log_head: "The entries are not part of the log with the head that is stated.",
    content: "The signature or the time stamp is of something different.",
    signature: "The signature was not made with the key that is named.",
    key: "The pack is not signed with the key that was expected.",
    anchor: "The time stamp does not contain the hash of this pack.",
  };
  const get = (id) => document.getElementById(id);
  let chosen = null, run = 0;

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  const time = (micros) => {
    const [date, clock] = new Date(Math.floor(micros / 1000)).toISOString().split("T");
    return `${date} ${clock.slice(0, 8)} UTC`;
  };
  const clipped = (text, most) => (text.length > most ? `${text.slice(0, most)}…` : text);
  const plural = (number, word) => `${number.toLocaleString("en")} ${number === 1 ? word : word.replace(/y$/, "ie") + "s"}`;

  function ranges(positions) {
    const runs = [];
    for (const at of positions) {
      const last = runs.at(-1);
      if (last && last[1] === at - 1) last[1] = at;
      else runs.push([at, at]);
    }
    return clipped(runs.map(([first, end]) => (first === end ? first : `${first}–${end}`)).join(", "), 2000);
  }

  function pretty(text) {
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch {} // it is shown as it is
    if (text.length <= SHOWN_CHARACTERS) return text;
    return `${text.slice(0, SHOWN_CHARACTERS)}\n… ${(text.length - SHOWN_CHARACTERS).toLocaleString("en")} more characters`;
  }

  function words(payload) {
    try {
      const event = JSON.parse(payload), parts = Array.isArray(event.parts) ? event.parts : [];
      const said = [event.text, ...parts.map((part) => part.text ?? part.name)].filter((one) => typeof one === "string");
      return `${typeof event.agent === "string" ? `${event.agent}: ` : ""}${said.join(" ") || payload}`;
    } catch {
      return payload;
    }
  }

  async function* pieces(file, mine) {
    for (let at = 0; at < file.size && mine === run; at += PIECE) {
      get("progress").value = at / file.size;
      yield new Uint8Array(await file.slice(at, at + PIECE).arrayBuffer());
    }
  }

  async function check() {
    const file = chosen, mine = ++run, places = {};
    const [head, key, log_head] = ["head", "key", "log_head"].map((name) => get(name).value.trim().toLowerCase());
    get("verdict").replaceChildren();
    get("result").replaceChildren();
    if (!file) return;
    get("busy").hidden = false;
    const seen = (kind, at, length) => (places[kind] ??= []).push([at, length]);
    let verdict;
    try {
      const wanted = { head: head || undefined, key: key || undefined, log_head: log_head || undefined };
      verdict = await stenologEvidence.verify(pieces(file, mine), { ...wanted, seen });
    } catch (error) {
      verdict = { exit: 2, check: "", why: `The file cannot be read: ${error.message}` };
    }
    if (mine !== run) return;
    get("busy").hidden = true;
    showVerdict(verdict, file);
    if (verdict.exit === 0 || verdict.exit === 3) await showPack(verdict, file, places, { head, key, log_head });
  }

  function showVerdict(verdict, file) {
    const { exit, check, line } = verdict;
    const whole = exit === 0 || exit === 3 ? `${plural(verdict.entries, "entry")}, none changed, none missing.` : "";
    const told = {
      0: ["good", "✓ Verified", whole],
      1: ["bad", "✗ Refused", `${MEANINGS[check]} Check “${check}”, line ${line} of ${file.name}.`],
      2: ["bad", "✗ Not a pack", verdict.why ?? MEANINGS.pack],
      3: ["warn", "Verified, except for a signature", `This browser cannot check Ed25519. ${whole}`],
    };
    const [kind, title, why] = told[exit];
    get("verdict").append(element("div", { class: kind }, element("strong", {}, title), element("span", {}, why)));
  }

  async function showPack(verdict, file, places, { head, key, log_head }) {
    const lineAt = async ([at, length]) => JSON.parse(await file.slice(at, at + length).text());
    const statement = await lineAt(places.evidence[0]);
    const anchors = await Promise.all((places.anchor ?? []).map(lineAt));
    const facts = element("dl");
    const fact = (name, ...values) => facts.append(element("dt", {}, name), element("dd", {}, ...values));
    const hex = (text) => element("span", { class: "hex" }, text);
    fact("Conversation", verdict.conversation);
    fact("Entries", `${plural(verdict.entries, "entry")}, ${time(statement.from)} to ${time(statement.to)} by the writer's clock`);
    const compared = head ? "the one that you gave" : "not compared with one from elsewhere, so a writer could have made all of it anew";
    fact("Head", hex(verdict.head), ` (${compared})`);
    fact("Withheld", verdict.withheld.length ? `${plural(verdict.withheld.length, "entry")}: ${ranges(verdict.withheld)}` : "nothing");
    if (verdict.erased.length) fact("Erased", `${plural(verdict.erased.length, "entry")}, as the history says: ${ranges(verdict.erased)}`);
    for (const [signer, by] of verdict.signed) {
      const means = signer === key ? " (the key that you gave)" : "; the pack cannot prove whose key that is";
      fact(verdict.exit === 3 ? "Signature, unchecked" : "Signed with", hex(signer), by ? ` by “${by}”${means}` : means);
    }
    if (!verdict.signed.length) fact("Signed", "no");
    if (verdict.log_head) fact("Head of the log", hex(verdict.log_head), log_head ? " (the one that you gave)" : "");
    else if (statement.log_head) fact("Head of the log", hex(statement.log_head), " (stated, not checked)");
    for (const anchor of anchors) {
      const kind = anchor.anchor === "rfc3161" ? "time stamp; check its own signature with openssl" : "command";
      fact("Anchor", `${anchor.name} (${kind})`);
    }
    fact("Made", `${time(statement.time)}, ${statement.program}`);
    if (statement.statement) fact("The producer says", statement.statement);
    if (!log_head && !(key && verdict.exit === 0)) fact("Names and erasures", "the producer's word, without a key or a head of the log from elsewhere");
    fact("Not proved", "that a provider got a request, that the writer told the truth, or that nothing came after");
    get("result").append(element("h2", {}, "What was checked"), facts);
    if (places.request) list("Requests", places.request, async (place) => requestItem(await lineAt(place)));
    list("Entries", places.position, async (place) => entryItem(await lineAt(place)));
  }

  function opening(summary, ...texts) {
    const made = element("details", {}, summary);
    // Long texts become elements only if somebody looks at them.
    made.addEventListener("toggle", () => texts.splice(0).forEach(([title, text]) => {
      if (title) made.append(element("p", { class: "at" }, title));
      made.append(element("pre", { tabindex: "0", role: "region", "aria-label": title || "content" }, pretty(text)));
    }));
    return made;
  }

  function entryItem({ position, at, topic, size, payload, withheld, erased }) {
    const place = element("span", { class: "at" }, `${position} · ${time(at)} · ${topic} `);
    if (withheld) return element("p", {}, place, element("span", { class: "withheld" }, `withheld, ${plural(size, "byte")}`));
    if (erased) return element("p", {}, place, element("span", { class: "erased" }, `erased, ${plural(size, "byte")}`));
    return opening(element("summary", {}, place, clipped(words(payload), 160)), ["", payload]);
  }

  function requestItem({ request, sources, body, sent }) {
    const built = sources.length ? `, built from ${clipped(ranges(sources), 160)}` : "";
    const title = `Answered at ${request}${built}; ${plural(body.length, "character")}`;
    const texts = [["Body", body]];
    if (sent) texts.push(["Bytes as they were sent", sent]);
    return opening(element("summary", {}, title), ...texts);
  }

  function list(title, places, item) {
    const items = element("ul", { class: "items" }), where = element("span", { role: "status" });
    const earlier = element("button", { type: "button" }, "Earlier"), later = element("button", { type: "button" }, "Later");
    let first = 0;
    async function show() {
      const mine = run, from = first;
      const made = await Promise.all(places.slice(from, from + PAGE).map(item));
      if (mine !== run || from !== first) return;
      items.replaceChildren(...made.map((each) => element("li", {}, each)));
      where.textContent = `${from + 1} to ${from + made.length} of ${places.length.toLocaleString("en")}`;
      earlier.disabled = from === 0;
      later.disabled = from + PAGE >= places.length;
    }
    const move = (by) => () => ((first += by), show());
    earlier.addEventListener("click", move(-PAGE));
    later.addEventListener("click", move(PAGE));
    get("result").append(element("h2", {}, title), items);
    if (places.length > PAGE) get("result").append(element("nav", { "aria-label": title }, earlier, later, where));
    return show();
  }

  function choose(file) {
    chosen = file ?? null;
    check();
  }

  get("file").addEventListener("change", (event) => choose(event.target.files[0]));
  get("form").addEventListener("submit", (event) => (event.preventDefault(), check()));
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      document.body.classList.toggle("over", kind === "dragover");
      if (kind === "drop") choose(event.dataTransfer.files[0]);
    });
  }
}
