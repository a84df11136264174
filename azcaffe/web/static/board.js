// SPDX-License-Identifier: AGPL-3.0-or-later
// A board of any of the games: squares to click, columns to drop into, or text with a list of moves.

import { h, s, percent, sides } from "./dom.js";

const LETTERS = "abcdefghijklmnopqrstuvwxyz";

export class Board {
  /** `onMove(action)` is called for a move that `legal` holds; without it the board is only looked at. */
  constructor(root, onMove = null) {
    this.root = root;
    this.onMove = onMove;
    this.cells = [];
    this.shape = "";
    this.focus = 0;
  }

  /**
   * game: {kind, height, width}; position: {board, text, cell}; options: legal (moves {action, name, cell}), playable,
   * line (squares), policy and visits (Map of action -> share), hint (action).
   */
  draw(game, position, options = {}) {
    const legal = options.legal ?? [];
    const shape = `${game.kind} ${game.height} ${game.width}`;
    if (shape !== this.shape) {
      this.shape = shape;
      this.focus = 0;
      this.build(game);
    }
    this.game = game;
    this.playable = Boolean(options.playable && this.onMove);
    this.moves = new Map(legal.map((move) => [move.action, move]));
    this.byCell = new Map(legal.filter((move) => move.cell !== null).map((move) => [move.cell, move]));
    if (game.kind === "text") this.drawText(position, options);
    else this.drawCells(game, position, options);
  }

  build({ kind, height, width }) {
    this.cells = [];
    this.drops = [];
    const columns = kind === "columns";
    const grid = h("div", {
      class: `board ${kind}`, role: columns ? "table" : "grid", "aria-label": "Board",
      onkeydown: (event) => this.key(event),
    });
    if (kind === "text") {
      this.text = h("pre", { class: "drawn", "aria-label": "Board", tabindex: 0 });
      this.list = h("div", { class: "movelist", role: "group", "aria-label": "Moves to choose from" });
      this.root.replaceChildren(this.text, this.list);
      return;
    }
    for (let row = 0; row < height; row += 1) {
      const line = h("div", { class: "row", role: "row" });
      for (let column = 0; column < width; column += 1) {
        line.append(this.buildCell(row * width + column, kind, row));
      }
      grid.append(line);
    }
    const names = columns ? [...Array(width).keys()] : [...LETTERS.slice(0, width)];
    const frame = h("div", { class: `frame ${kind}` });
    this.root.style.setProperty("--rows", height);
    this.root.style.setProperty("--columns", width);
    if (columns) frame.append(this.buildDrops(width));
    frame.append(grid, h("div", { class: "names across", "aria-hidden": "true" }, ...names.map((name) => h("span", {}, name))));
    if (!columns) {
      const rows = [...Array(height).keys()].map((row) => h("span", {}, row + 1));
      frame.append(h("div", { class: "names down", "aria-hidden": "true" }, ...rows));
    }
    this.root.replaceChildren(frame);
  }

  buildCell(cell, kind, row) {
    const heat = h("span", { class: "heat" });
    const policy = h("span", { class: "share policy", "aria-hidden": "true" });
    const visits = h("span", { class: "share visits", "aria-hidden": "true" });
    const stone = h("span", { class: "stone" });
    const parts = [heat, stone, policy, visits];
    if (kind === "columns") {
      const square = h("div", {
        class: "cell", role: "cell", onclick: () => this.choose(cell), onpointerenter: () => this.hover(cell),
        onpointerleave: () => this.hover(null),
      }, ...parts);
      square.style.setProperty("--row", row);
      this.cells.push({ square, heat, policy, visits, stone });
      return square;
    }
    const square = h("button", { type: "button", class: "cell", tabindex: -1, onclick: () => this.choose(cell) }, ...parts);
    square.style.setProperty("--row", row);
    this.cells.push({ square, heat, policy, visits, stone });
    return h("div", { role: "gridcell", class: "holder" }, square);
  }

  buildDrops(width) {
    this.drops = [...Array(width).keys()].map((column) => h("button", {
      type: "button", class: "drop", onclick: () => this.choose(column), onpointerenter: () => this.hover(column),
      onpointerleave: () => this.hover(null), onfocus: () => this.hover(column), onblur: () => this.hover(null),
    }, h("span", { "aria-hidden": "true" }, "▾")));
    return h("div", {
      class: "drops", role: "group", "aria-label": "Columns", onkeydown: (event) => this.key(event),
    }, ...this.drops);
  }

  drawCells(game, position, { line = [], policy = null, visits = null, hint = null }) {
    const names = sides(game.kind);
    const most = policy ? Math.max(...policy.values(), 1e-9) : 1;
    this.cells.forEach((part, cell) => {
      const owner = { x: 1, o: -1 }[position.board[cell]] ?? 0;
      const move = this.byCell.get(cell);
      const { square, heat, stone } = part;
      const look = `${game.kind} ${owner}`;
      if (stone.dataset.look !== look) {
        stone.dataset.look = look;
        stone.className = `stone ${owner === 1 ? "one" : owner === -1 ? "two" : "none"}`;
        stone.replaceChildren(...(game.kind === "grid" && owner ? [mark(owner)] : []));
      }
      const prior = move && policy ? policy.get(move.action) ?? 0 : null;
      const share = move && visits ? visits.get(move.action) ?? 0 : null;
      heat.style.setProperty("--depth", prior === null ? 0 : prior / most);
      part.policy.textContent = prior !== null && prior >= 0.005 ? percent(prior) : "";
      part.visits.textContent = share !== null && share >= 0.005 ? percent(share) : "";
      square.style.setProperty("--share-width", share ?? 0);
      square.classList.toggle("hot", prior !== null && prior / most > 0.75);
      square.classList.toggle("warm", prior !== null && prior / most > 0.15);
      square.classList.toggle("shared", share !== null && share >= 0.005);
      square.classList.toggle("last", position.cell === cell);
      square.classList.toggle("won", line.includes(cell));
      square.classList.toggle("dim", line.length > 0 && owner !== 0 && !line.includes(cell));
      square.classList.toggle("open", Boolean(move) && this.playable);
      square.classList.toggle("hint", hint !== null && move?.action === hint);
      square.setAttribute("aria-label", this.describe(cell, owner, names, { prior, share, position, line, hint, move }));
      if (game.kind !== "columns") {
        square.setAttribute("aria-disabled", String(!(move && this.playable)));
        square.tabIndex = cell === this.focus ? 0 : -1;
      }
    });
    this.drops.forEach((button, column) => {
      const move = this.moves.get(column);
      const row = move ? Math.floor(move.cell / game.width) + 1 : null;
      button.setAttribute("aria-disabled", String(!(move && this.playable)));
      button.tabIndex = column === this.focus ? 0 : -1;
      const prior = move && policy ? `, policy ${percent(policy.get(column) ?? 0)}` : "";
      const share = move && visits ? `, visits ${percent(visits.get(column) ?? 0)}` : "";
      button.setAttribute("aria-label", move ? `Drop in column ${column}, lands in row ${row}${prior}${share}` : `Column ${column}, closed`);
    });
    this.root.firstChild.classList.toggle("playable", this.playable);
    if (!this.playable) this.hover(null);
  }

  describe(cell, owner, names, { prior, share, position, line, hint, move }) {
    const row = Math.floor(cell / this.game.width);
    const column = cell % this.game.width;
    const name = this.game.kind === "columns" ? `column ${column} row ${row + 1}` : `${LETTERS[column]}${row + 1}`;
    const words = [name, owner ? spoken(names[owner]) : "empty"];
    if (position.cell === cell) words.push("last move");
    if (line.includes(cell)) words.push("winning row");
    if (prior !== null) words.push(`policy ${percent(prior)}`);
    if (share !== null) words.push(`visits ${percent(share)}`);
    if (hint !== null && move?.action === hint) words.push("hint");
    return words.join(", ");
  }

  drawText(position, { policy = null, visits = null, hint = null }) {
    this.text.textContent = position.text;
    this.list.replaceChildren(...[...this.moves.values()].map((move) => {
      const shares = [policy?.get(move.action), visits?.get(move.action)].filter((share) => share !== undefined);
      const button = h("button", { type: "button", class: move.action === hint ? "hint" : null, onclick: () => this.pick(move) },
        move.name, ...shares.map((share) => h("small", {}, percent(share))));
      button.disabled = !this.playable;
      return button;
    }));
  }

  choose(cell) {
    if (this.game.kind === "columns") this.pick(this.moves.get(cell % this.game.width));
    else this.pick(this.byCell.get(cell));
  }

  pick(move) {
    if (!move || !this.playable) return;
    if (this.game.kind === "columns") this.focus = move.action;
    else if (move.cell !== null) this.focus = move.cell;
    this.onMove(move.action);
  }

  hover(cell) {
    if (this.game?.kind !== "columns") return;
    const column = cell === null || !this.playable ? null : cell % this.game.width;
    const landing = column === null ? null : this.moves.get(column)?.cell;
    this.cells.forEach(({ square }, index) => square.classList.toggle("landing", index === landing));
    this.drops.forEach((button, index) => button.classList.toggle("over", index === column));
  }

  /** Arrow keys, Home and End move the focus, as in a grid of the ARIA practices; digits choose a column. */
  key(event) {
    const { kind, height, width } = this.game;
    const columns = kind === "columns";
    const rows = columns ? 1 : height;
    let row = Math.floor(this.focus / width);
    let column = this.focus % width;
    if (event.key === "ArrowLeft") column = Math.max(0, column - 1);
    else if (event.key === "ArrowRight") column = Math.min(width - 1, column + 1);
    else if (event.key === "ArrowUp") row = Math.max(0, row - 1);
    else if (event.key === "ArrowDown") row = Math.min(rows - 1, row + 1);
    else if (event.key === "Home") column = 0;
    else if (event.key === "End") column = width - 1;
    else if (columns && /^[0-9]$/.test(event.key) && Number(event.key) < width) column = Number(event.key);
    else return;
    event.preventDefault();
    const stops = columns ? this.drops : this.cells.map(({ square }) => square);
    stops[this.focus].tabIndex = -1;
    this.focus = row * width + column;
    stops[this.focus].tabIndex = 0;
    stops[this.focus].focus();
  }
}

/** How a screen reader should say a side. */
export function spoken(name) {
  return { "✕": "cross", "○": "nought" }[name] ?? name;
}

/** A cross or a nought. */
export function mark(owner) {
  const shape = owner === 1 ? s("path", { d: "M7 7 L17 17 M17 7 L7 17" }) : s("circle", { cx: 12, cy: 12, r: 5.4 });
  return s("svg", { viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, shape);
}
