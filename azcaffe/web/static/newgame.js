// SPDX-License-Identifier: AGPL-3.0-or-later
// The dialog that begins a game: which game, which board, which opponent, who starts.

import { $, h, store, parseGame, gameTitle, FAMILIES } from "./dom.js";

const FIELDS = { tictactoe: ["height", "width", "connect"], connectn: ["height", "width", "connect"], othello: ["size"] };
const DEFAULTS = { tictactoe: { height: 6, width: 6, connect: 4 }, connectn: { height: 6, width: 7, connect: 4 }, othello: { size: 8 } };
const LEVELS = [[50, "Quick"], [200, "Steady"], [800, "Strong"]];

/** Strengths a server with that limit offers to a net; a net's bare policy is the weakest. */
export function strengths(net, most) {
  const levels = LEVELS.filter(([playouts]) => playouts < most);
  levels.push([most, levels.length < 2 ? "Full" : "Strongest"]);
  const named = levels.map(([playouts, name]) => ({ value: playouts, text: `${name}: ${playouts.toLocaleString("en")} playouts` }));
  return net.policy ? [{ value: 0, text: "Instinct: policy only" }, ...named] : named;
}

/** Put the strengths into a select, keeping the choice where it still exists. */
export function fillStrengths(select, net, most, wanted) {
  const offers = strengths(net, most);
  select.replaceChildren(...offers.map(({ value, text }) => h("option", { value }, text)));
  const near = offers.reduce((best, offer) => (Math.abs(offer.value - wanted) < Math.abs(best.value - wanted) ? offer : best));
  select.value = String(near.value);
}

export class NewGame {
  /** `onStart({game, net, human, simulations, variety})` may reject with a Problem, which the dialog shows. */
  constructor(setup, onStart) {
    this.setup = setup;
    this.onStart = onStart;
    this.dialog = $("new-dialog");
    const others = setup.games.filter((name) => !setup.families.includes(parseGame(name).family));
    $("family").replaceChildren(
      ...setup.families.toReversed().map((family) => h("option", { value: family }, FAMILIES[family] ?? family)),
      ...others.map((name) => h("option", { value: name }, gameTitle(name))),
    );
    for (const id of ["height", "width", "connect"]) {
      $(id).min = setup.board.least_side;
      $(id).max = setup.board.most_side;
      $(id).addEventListener("input", () => this.fillNets());
    }
    $("size").addEventListener("change", () => this.fillNets());
    $("family").addEventListener("change", () => this.chooseFamily());
    $("net").addEventListener("change", () => this.fillStrength());
    $("new-cancel").addEventListener("click", () => this.dialog.close());
    $("new-form").addEventListener("submit", (event) => this.submit(event));
    this.choose(this.first());
  }

  /** What to begin with: the last choice if the server still has it, else the first net's game. */
  first() {
    const offered = this.setup.nets.find((net) => net.game !== null);
    const fallback = {
      game: offered?.game ?? "tictactoe(height=3,width=3,connect=3)", net: offered?.id ?? "rollouts",
      human: "first", simulations: 200, variety: false,
    };
    const last = { ...fallback, ...store.get("choice", {}) };
    const net = this.setup.nets.find(({ id }) => id === last.net);
    const known = this.setup.families.includes(parseGame(last.game).family) || this.setup.games.includes(last.game);
    return net && known && (net.game === null || net.game === last.game) ? last : fallback;
  }

  choose(choice) {
    const game = parseGame(choice.game);
    const family = this.setup.families.includes(game.family);
    $("family").value = family ? game.family : choice.game;
    this.wantedNet = choice.net;
    this.wantedStrength = choice.simulations;
    this.showFields(game);
    document.querySelector(`input[name=human][value=${choice.human}]`).checked = true;
    $("variety").checked = choice.variety;
    this.fillNets();
  }

  chooseFamily() {
    const family = $("family").value;
    const own = this.setup.games.map(parseGame).find((game) => game.family === family);
    this.showFields(own ?? DEFAULTS[family] ?? {});
    this.fillNets();
  }

  showFields(values) {
    const fields = FIELDS[$("family").value] ?? [];
    for (const box of $("sizes").querySelectorAll(".field")) {
      const name = box.dataset.for;
      box.hidden = !fields.includes(name);
      $(name).disabled = box.hidden;
      if (name in values) $(name).value = values[name];
    }
    $("sizes").hidden = !fields.length;
  }

  game() {
    const family = $("family").value;
    const fields = FIELDS[family];
    if (!fields) return family;
    return `${family}(${fields.map((name) => `${name}=${Number($(name).value)}`).join(",")})`;
  }

  fillNets() {
    const game = this.game();
    const fitting = this.setup.nets.filter((net) => net.game === null || net.game === game);
    const wanted = fitting.some(({ id }) => id === this.wantedNet) ? this.wantedNet : fitting[0].id;
    $("net").replaceChildren(...fitting.map((net) => h("option", { value: net.id }, net.title)));
    $("net").value = wanted;
    this.fillStrength();
  }

  fillStrength() {
    const net = this.setup.nets.find(({ id }) => id === $("net").value);
    const current = $("new-strength").value === "" ? this.wantedStrength : Number($("new-strength").value);
    fillStrengths($("new-strength"), net, this.setup.max_simulations, current);
  }

  choice() {
    return {
      game: this.game(), net: $("net").value, simulations: Number($("new-strength").value),
      human: document.querySelector("input[name=human]:checked").value, variety: $("variety").checked,
    };
  }

  open(simulations) {
    $("new-problem").hidden = true;
    if (simulations !== undefined) $("new-strength").value = String(simulations);
    this.dialog.showModal();
  }

  async submit(event) {
    event.preventDefault();
    const choice = this.choice();
    $("new-start").disabled = true;
    try {
      await this.onStart(choice);
      store.set("choice", choice);
      this.wantedNet = choice.net;
      this.dialog.close();
    } catch (problem) {
      $("new-problem").textContent = problem.message;
      $("new-problem").hidden = false;
    } finally {
      $("new-start").disabled = false;
    }
  }
}
