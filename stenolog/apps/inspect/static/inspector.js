// What every page can do by keys. Without this file every page works by its links and forms.

// True where a key is meant for what it is pressed in: a field that is written in, or a key of the browser.
export function isMeantElsewhere(event) {
  const { target } = event;
  const writes = target.matches("textarea, select, input:not([type=range], [type=checkbox], [type=radio])");
  return writes || event.metaKey || event.ctrlKey || event.altKey;
}

// True for a click that means what the page makes of it, and not another tab or window.
export function isPlain(event) {
  return !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button);
}

// A piece of a page from the server, or what its error says; null where a later question has stopped it.
export async function fetched(address, parameters, signal) {
  try {
    const answer = await fetch(`${address}?${new URLSearchParams(parameters)}`, { signal }), text = await answer.text();
    return answer.ok ? text : problem(text, answer.status);
  } catch (error) {
    return null;
  }
}

function problem(page, status) {
  const words = new DOMParser().parseFromString(page, "text/html").querySelector("main p")?.textContent;
  const shown = document.createElement("p");
  shown.className = "error";
  shown.textContent = words ?? `The server's answer was ${status}.`;
  return shown.outerHTML;
}

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !isMeantElsewhere(event)) {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  } else if (event.key === "Escape" && event.target.matches("input[type=search]")) {
    event.target.blur();
  }
});
