// SPDX-License-Identifier: AGPL-3.0-or-later
// What stands around the board of a game in progress (`play`, see play.js): players, value, moves, legend.

import { $, h, gameTitle, sides, signed } from "./dom.js";
import { mark, spoken } from "./board.js";

export function drawPlayers(play) {
  const names = sides(play.game.kind);
  const chips = [1, -1].map((side) => {
    const active = !play.game.over && play.toMove === side;
    const won = play.game.over && play.game.winner === side;
    const who = play.isHuman(side) ? (play.game.human === "both" ? names[side] : "You") : play.net.title;
    const stone = { grid: () => mark(side), text: () => (side === 1 ? "1" : "2") }[play.game.kind]?.() ?? "";
    return h("div", { class: `player ${active ? "active" : ""} ${won ? "won" : ""}` },
      h("span", { class: `token ${play.game.kind} stone ${side === 1 ? "one" : "two"}`, "aria-hidden": "true" }, stone),
      h("span", { class: "who" }, who),
      active && !play.isHuman(side) && play.busy ? h("span", { class: "dots", "aria-label": "thinking" }, h("i"), h("i"), h("i")) : null);
  });
  $("players").replaceChildren(...chips);
  $("game-title").textContent = gameTitle(play.game.game);
}

export function drawValue(play, position, analysis) {
  const value = play.game.over && play.view === play.ply ? play.game.winner : analysis?.value ?? lastValue(play, position.ply);
  const bar = $("valuebar");
  bar.hidden = !play.show.value;
  bar.style.setProperty("--value", ((value ?? 0) + 1) / 2);
  bar.classList.toggle("unknown", value === null || value === undefined);
  bar.dataset.kind = play.game.kind;
  const names = sides(play.game.kind);
  const number = value ?? 0;
  bar.setAttribute("aria-valuenow", number.toFixed(2));
  bar.setAttribute("aria-valuetext", value === null || value === undefined ? "unknown" : `${signed(number)} for ${spoken(names[1])}`);
  bar.title = value === null || value === undefined ? "" : `Expected result for ${names[1]}: ${signed(number)}`;
  $("chart-card").hidden = !play.show.chart;
  if (!play.show.chart) return;
  const known = play.game.positions.map(({ ply, value: at }) => [ply, play.analyses.get(ply)?.value ?? at]).filter(([, at]) => at !== null);
  play.chart.options.label = `Value for ${spoken(names[1])} over the game`;
  play.chart.options.right = Math.max(6, play.ply);
  play.chart.show([{ name: `for ${names[1]}`, class: "first", x: known.map(([ply]) => ply), y: known.map(([, at]) => at), dots: true }], play.view);
}

/** The newest value known at or before `ply`: while the net thinks, the bar rests where it was. */
function lastValue(play, ply) {
  for (let at = ply; at >= 0; at -= 1) {
    const value = play.analyses.get(at)?.value ?? play.game.positions[at].value;
    if (value !== null) return value;
  }
  return null;
}

export function drawMoves(play) {
  const { positions, kind } = play.game;
  $("no-moves").hidden = positions.length > 1;
  const list = $("moves");
  const labels = positions.slice(1).map(({ ply, move }) =>
    `Move ${ply}, ${spoken(sides(kind)[positions[ply - 1].to_move])}: ${move}`);
  // Items that stay are kept, so that a focus on one of them is too.
  const same = labels.findIndex((label, at) => list.children[at]?.firstChild.getAttribute("aria-label") !== label);
  while (list.children.length > (same < 0 ? labels.length : same)) list.lastChild.remove();
  for (const { ply, move } of positions.slice(list.children.length + 1)) {
    list.append(h("li", {}, h("button", {
      type: "button", class: positions[ply - 1].to_move === 1 ? "one" : "two", "aria-label": labels[ply - 1],
      onclick: () => play.lookAt(ply),
    }, h("span", { "aria-hidden": "true" }, h("small", {}, ply), move.replace("column ", "")))));
  }
  [...list.children].forEach(({ firstChild: button }, at) => {
    if (at + 1 === play.view) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
  const current = list.querySelector("[aria-current]");
  if (current) list.scrollTop = current.offsetTop - list.clientHeight / 2;
}

export function drawLegend(play) {
  const policy = play.show.policy && play.net.policy && !play.game.over;
  const visits = play.show.visits && !play.game.over && play.simulations > 0;
  $("legend").hidden = !(policy || visits);
  $("legend").replaceChildren(
    policy ? h("span", {}, h("i", { class: "key heat-key" }), "net's policy: stronger is likelier") : "",
    visits ? h("span", {}, h("i", { class: "key share-key" }), "share of the search's visits") : "",
  );
}
