// Requests to the instance, and what it tells each second.

const KEPT = "millrace-token";
let token = sessionStorage.getItem(KEPT) ?? "";

/** Uses a token from now on; an empty one: none. */
export function useToken(text) {
  token = text.trim();
  if (token) sessionStorage.setItem(KEPT, token); else sessionStorage.removeItem(KEPT);
}

/** Why the instance did not do what it was asked. */
export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

function fields(more = {}) {
  // A field has no characters beyond ASCII; with such a token none is right.
  return /^[\x21-\x7e]+$/.test(token) ? { Authorization: `Bearer ${token}`, ...more } : more;
}

async function refusal(response) {
  const said = await response.json().catch(() => ({}));
  return new Refused(response.status, said.message ?? `the instance answers ${response.status}`);
}

/** Asks by `/api/v1/…`; a body makes it a change or a query. */
export async function ask(path, method = "GET", body = undefined) {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const headers = fields(body === undefined ? {} : { "Content-Type": "application/json" });
  const response = await fetch(`/api/v1/${path}`, { method, headers, ...sent }).catch(() => {
    throw new Refused(0, "the instance does not answer");
  });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

/** The path of a table's entries, or of one. */
export function entries(table, key = undefined) {
  const path = `tables/${encodeURIComponent(table)}/entries`;
  return key === undefined ? path : `${path}/${encodeURIComponent(key)}`;
}

/** Calls `look` with what there is to see each second, until the connection ends. EventSource could not send a token. */
export async function watch(look, signal) {
  const response = await fetch("/api/v1/live", { headers: fields(), signal });
  if (!response.ok) throw await refusal(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      if (data.length) look(JSON.parse(data.join("\n")));
    }
  }
}
