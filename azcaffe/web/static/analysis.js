// SPDX-License-Identifier: AGPL-3.0-or-later
// The search's view of a position as a small table: candidates, visit shares, policy, values, and the line it expects.

import { h, percent, signed, sides } from "./dom.js";

const ROWS = 6;

export class AnalysisTable {
  constructor(root) {
    this.root = root;
  }

  /** An analysis of a game whose board looks like `kind`. */
  show(analysis, kind) {
    const names = sides(kind);
    const searched = analysis.playouts > 0;
    const moves = [...analysis.moves].sort((a, b) => b.visits - a.visits || b.prior - a.prior).slice(0, ROWS);
    const most = Math.max(...moves.map((move) => (searched ? move.share : move.prior)), 1e-9);
    const head = h("tr", {}, ...["Move", "Visits", "Policy", `Value for ${names[analysis.to_move]}`].map((text) => h("th", { scope: "col" }, text)));
    const rows = moves.map((move) => h("tr", {},
      h("th", { scope: "row" }, move.name),
      h("td", { class: "bar", "--share": (searched ? move.share : move.prior) / most }, searched ? percent(move.share) : "–"),
      h("td", {}, percent(move.prior)),
      h("td", {}, move.visits ? signed(move.q) : "–"),
    ));
    const facts = searched
      ? `${analysis.playouts.toLocaleString("en")} playouts: ${signed(analysis.value)} for ${names[1]}; the net alone: ${signed(analysis.net_value)}.`
      : `The net alone: ${signed(analysis.net_value)} for ${names[1]}.`;
    this.root.replaceChildren(
      h("table", {}, h("caption", { class: "hidden" }, `Moves considered for ${names[analysis.to_move]}`), h("thead", {}, head), h("tbody", {}, ...rows)),
      h("p", { class: "muted" }, facts),
      analysis.line.length ? h("p", { class: "muted" }, `Expects ${analysis.line.slice(0, 8).map((name) => name.replace("column ", "")).join(" ")}`) : "",
    );
  }
}
