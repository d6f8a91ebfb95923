// How far an import is, the conversations that it brings, and files that are dropped on the list.

import { fetched } from "./fetched.js";
import { renew } from "./renew.js";

const PAUSE_MS = 500, STILL_MS = 1000;
const place = document.getElementById("importing"), { root } = place.dataset;
const box = document.getElementById("drop"), { token, most } = box.dataset;
let told = place.querySelector(".words").dataset.outcomes, moved = 0, files = [];
// The outcomes after which a conversation is opened: that of the only file named, or of one dropped.
let opensAfter = new URLSearchParams(location.search).has("open") ? 0 : Infinity;
if (!opensAfter) history.replaceState(null, "", location.pathname);  // whoever goes back means the list

function parsed(text) {
  return text === null ? null : new DOMParser().parseFromString(text, "text/html");
}

function put(mine, theirs) {
  if (mine.innerHTML !== theirs.innerHTML) mine.replaceChildren(...theirs.childNodes);
}

async function look() {
  const page = document.hidden ? null : parsed(await fetched(`${root}/importing`, {})), words = page?.querySelector(".words");
  if (words) {
    const opened = words.querySelector("a");
    if (opened && +opened.dataset.since > opensAfter) return location.assign(opened.href);
    const before = place.querySelector(".words").textContent;
    for (const each of [".words", ".bar", ".error", "details ul"]) put(place.querySelector(each), page.querySelector(each));
    place.querySelector("details").hidden = page.querySelector("details").hidden;
    const now = place.querySelector(".words").textContent;
    // Of the way to the end a screen reader says nothing: it would never stop.
    if (now !== before && !place.querySelector("progress")) document.getElementById("imported").textContent = now;
    // A row that moves away under the pointer would not be the one that is clicked.
    if (words.dataset.outcomes !== told && performance.now() - moved > STILL_MS && (!document.getElementById("found") || await renew("#found"))) told = words.dataset.outcomes;
  }
  setTimeout(look, PAUSE_MS);
}

function hasFiles(event) {
  return event.dataTransfer?.types.includes("Files");
}

function offer(some, wrong = "") {
  files = some;
  if (token) {
    box.querySelector("ul").replaceChildren(...files.map((file) => Object.assign(document.createElement("li"), { textContent: file.name })));
    box.querySelector(".error").textContent = wrong;
  }
  box.returnValue = "";
  if (files.length) box.showModal();
}

// The reason for which a file was not taken, or "".
async function send(file) {
  if (file.size > +most) return `larger than ${most / 2 ** 20} MiB`;
  try {
    const answer = await fetch(`${root}/import?${new URLSearchParams({ name: file.name })}`, { method: "POST", body: file, headers: { "X-Stenolog-Token": token } });
    return answer.ok ? "" : await answer.text() || `the answer was ${answer.status}`;
  } catch (error) {
    return "it cannot be read, or the server has ended; a folder is imported by its name, on the command line";
  }
}

box.addEventListener("close", async () => {
  if (box.returnValue !== "import") return;
  const left = [], wrong = [], sent = +place.querySelector(".words").dataset.outcomes;
  for (const file of files) {
    const reason = await send(file);
    if (reason) { left.push(file); wrong.push(`${file.name}: ${reason}`); }
  }
  if (files.length === 1 && !left.length) opensAfter = sent;
  offer(left, wrong.join("; "));
});
document.addEventListener("dragover", (event) => { if (hasFiles(event)) event.preventDefault(); });
document.addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  offer([...event.dataTransfer.files]);
});
document.getElementById("chosen")?.addEventListener("change", (event) => { offer([...event.target.files]); event.target.value = ""; });
document.addEventListener("pointermove", () => { moved = performance.now(); });
look();
