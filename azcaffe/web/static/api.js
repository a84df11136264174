// SPDX-License-Identifier: AGPL-3.0-or-later
// The server's JSON API. Every function resolves to the answer or throws Problem with a line for people.

export class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function call(method, path, body, signal) {
  let response;
  let answer = null;
  try {
    response = await fetch(`/api${path}`, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
    if (response.headers.get("content-type")?.startsWith("application/json")) answer = await response.json();
  } catch (reason) {
    if (reason.name === "AbortError") throw reason;
    throw new Problem(0, "The server does not answer.");
  }
  if (!response.ok) throw new Problem(response.status, answer?.detail ?? `The server answered ${response.status}.`);
  return answer;
}

/** Waits and asks again while the server is too busy, five times at most. */
async function patient(method, path, body, signal) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await call(method, path, body, signal);
    } catch (problem) {
      if (problem.status !== 503 || attempt === 5) throw problem;
      await new Promise((done) => { setTimeout(done, 500 * 2 ** attempt); });
    }
  }
}

export const api = {
  setup: () => call("GET", "/setup"),
  begin: (game, net, human) => call("POST", "/games", { game, net, human }),
  look: (id) => call("GET", `/games/${id}`),
  forget: (id) => call("DELETE", `/games/${id}`),
  move: (id, ply, action) => call("POST", `/games/${id}/moves`, { ply, action }),
  reply: (id, ply, simulations, variety) => patient("POST", `/games/${id}/reply`, { ply, simulations, variety }),
  analysis: (id, ply, simulations, signal) => patient("POST", `/games/${id}/analysis`, { ply, simulations }, signal),
  undo: (id, ply) => call("POST", `/games/${id}/undo`, { ply }),
  runs: () => call("GET", "/runs"),
  curves: (id) => call("GET", `/runs/${id}/curves`),
  saved: (id, offset, limit) => call("GET", `/runs/${id}/games?offset=${offset}&limit=${limit}`),
  replay: (id, number) => call("GET", `/runs/${id}/games/${number}`),
};
