// A part of a page as the server has it now; and a page that waits for figures, which goes on by itself.

import { fetched } from "./fetched.js";

// Put a part anew, in which what has the focus keeps it; returns the page that it is from, or null.
export async function renew(selector) {
  const text = await fetched(location.pathname, new URLSearchParams(location.search));
  const page = text === null ? null : new DOMParser().parseFromString(text, "text/html");
  const old = document.querySelector(selector), fresh = page?.querySelector(selector), focus = document.activeElement;
  if (!old || !fresh) return null;
  const at = old.contains(focus) ? focus.getAttribute("href") : null;
  if (old.innerHTML !== fresh.innerHTML) old.replaceChildren(...fresh.childNodes);
  if (at && document.activeElement !== focus) [...old.querySelectorAll("a")].find((link) => link.getAttribute("href") === at)?.focus({ preventScroll: true });
  return page;
}

async function wait() {
  const page = await renew(document.getElementById("found") ? "#found" : "main");
  if (page === null || "waits" in page.body.dataset) setTimeout(wait, 1000);
}

if ("waits" in document.body.dataset) setTimeout(wait, 500);
