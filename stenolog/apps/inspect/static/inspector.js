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

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !isMeantElsewhere(event)) {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  } else if (event.key === "Escape" && event.target.matches("input[type=search]")) {
    event.target.blur();
  }
});
