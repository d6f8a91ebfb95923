// What a page asks the server for. A conversation in a file has this in the file: see one_file/answers.js.

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
