// SPDX-License-Identifier: AGPL-3.0-or-later
// Small helpers: elements without markup in strings (the page's content policy allows no inline anything).

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

/** An element: h("button", {class: "a", onclick: f}, "text", child). */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

let toastTimer = 0;

/** Tell the person about a problem, for a while. */
export function toast(text) {
  const box = $("toast");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { box.hidden = true; }, 6000);
}

/** Remembered choices; a browser that forbids storage just forgets. */
export const store = {
  get(key, fallback) {
    try { return JSON.parse(localStorage.getItem(`azcaffe.${key}`)) ?? fallback; } catch { return fallback; }
  },
  set(key, value) {
    try { localStorage.setItem(`azcaffe.${key}`, JSON.stringify(value)); } catch { /* not remembered */ }
  },
};

export const percent = (share) => (share > 0 && share < 0.005 ? "<1 %" : `${Math.round(share * 100)} %`);

export function signed(value) {
  const text = Math.abs(value).toFixed(2);
  return text === "0.00" ? "0.00" : `${value > 0 ? "+" : "−"}${text}`;
}

/** "tictactoe(height=6,width=6,connect=4)" -> {family, height: 6, …}. */
export function parseGame(name) {
  const [, family, inside] = /^([^(]*)(?:\((.*)\))?$/.exec(name) ?? [null, name, ""];
  const parts = (inside ?? "").split(",").map((part) => part.split("=")).filter((pair) => pair.length === 2);
  return { family, ...Object.fromEntries(parts.map(([key, value]) => [key, Number(value)])) };
}

export const FAMILIES = { tictactoe: "Tic-tac-toe", connectn: "Connect-N", othello: "Othello" };

/** What people call a game. */
export function gameTitle(name) {
  const game = parseGame(name);
  if (game.family === "tictactoe") return `Tic-tac-toe ${game.height} × ${game.width}, ${game.connect} in a row`;
  if (game.family === "connectn") return `Connect ${game.connect} on ${game.height} × ${game.width}`;
  if (game.family === "othello") return `Othello ${game.size} × ${game.size}`;
  const [, title, inside] = /^(?:openspiel:)?([^(]*)(?:\((.*)\))?$/.exec(name) ?? [null, name, ""];
  return [title, ...(inside ?? "").split(",")].filter(Boolean).join(", ").replace("=", " ").replaceAll("_", " ");
}

/** Names of the two players by the look of the board. */
export function sides(kind) {
  if (kind === "columns") return { 1: "Blue", [-1]: "Orange" };
  if (kind === "discs") return { 1: "Black", [-1]: "White" };
  if (kind === "text") return { 1: "First", [-1]: "Second" };
  return { 1: "✕", [-1]: "○" };
}
