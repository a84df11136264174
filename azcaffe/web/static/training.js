// SPDX-License-Identifier: AGPL-3.0-or-later
// Training runs: a list, live curves of one, and its self-play games to step through.

import { $, h, toast, gameTitle, sides } from "./dom.js";
import { api } from "./api.js";
import { Board } from "./board.js";
import { Chart } from "./chart.js";

const REFRESH = 3000;
const PAGE = 20;
const STEP_PAUSE = 800;

/** What is drawn: from which group of columns, against which, and what it means. */
const CHARTS = [
  { title: "Value loss", unit: "half mean squared error", group: "log", y: "value_loss", class: "first" },
  { title: "Policy loss", unit: "cross-entropy, nats", group: "log", y: "policy_loss", class: "first" },
  { title: "KL divergence", unit: "to the search's policy, nats", group: "log", y: "kl", class: "first" },
  { title: "Opponent", unit: "roll-out playouts a move", group: "log", y: "opponent", class: "second", steps: true },
  { title: "Score against roll-outs", unit: "1 = all won, by solver step", group: "matches", x: "snapshot", y: "score", class: "second", high: 1, dots: true, across: "solver steps" },
  { title: "Speed", unit: "playouts a second, mean of five lines", group: "metrics", y: "playouts_per_second", class: "third", mean: 5 },
];

export class Training {
  constructor() {
    this.id = null;
    this.timer = 0;
    this.offset = 0;
    this.board = new Board($("replay-board"));
    this.charts = CHARTS.map((spec) => {
      const plot = h("div", { class: "chart" });
      const card = h("section", { class: "card" }, h("h2", {}, spec.title), h("p", { class: "muted unit" }, spec.unit), plot);
      $("curves").append(card);
      const across = spec.across ?? "games";
      return { spec, card, chart: new Chart(plot, { height: 170, across, low: 0, high: spec.high, left: 0, label: `${spec.title}, ${spec.unit}` }) };
    });
    const on = (id, action) => $(id).addEventListener("click", action);
    on("r-first", () => this.step(0));
    on("r-back", () => this.step(this.view - 1));
    on("r-forward", () => this.step(this.view + 1));
    on("r-last", () => this.step(this.replay.positions.length - 1));
    on("r-play", () => this.run(!this.playing));
    on("newer", () => this.turn(-PAGE));
    on("older", () => this.turn(PAGE));
  }

  /** Show the view, with run `id` if given; refreshes until `leave`. */
  async enter(id) {
    this.wanted = id;
    await this.refresh();
  }

  leave() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.run(false);
  }

  async refresh() {
    clearTimeout(this.timer);
    try {
      const runs = await api.runs();
      this.drawRuns(runs);
      const run = runs.find(({ id }) => id === this.wanted) ?? runs[0];
      $("rundetail").hidden = !run;
      if (run) await this.showRun(run);
    } catch (problem) {
      toast(problem.message);
    }
    if (location.hash.startsWith("#training")) {
      this.timer = setTimeout(() => (document.hidden ? this.later() : this.refresh()), REFRESH);
    }
  }

  later() {
    document.addEventListener("visibilitychange", () => this.refresh(), { once: true });
  }

  drawRuns(runs) {
    const focused = document.activeElement?.getAttribute?.("href");
    const current = runs.some(({ id }) => id === this.wanted) ? this.wanted : runs[0]?.id;
    const cards = runs.map((run) => h("a", {
      class: "run", href: `#training/${run.id}`, "aria-current": run.id === current ? "true" : null,
    },
    h("strong", {}, run.title),
    h("span", { class: "muted" }, [run.game ? gameTitle(run.game) : null, run.games === null ? "no lines yet" : `${run.games.toLocaleString("en")} games`].filter(Boolean).join(" · ")),
    h("span", { class: run.active ? "state live" : "state" }, run.active ? "training now" : run.updated ? ago(run.updated) : "")));
    $("runs").replaceChildren(...(cards.length ? cards : [h("p", { class: "muted" }, "No runs. Start the server with --runs FOLDER to see training here.")]));
    if (focused?.startsWith("#training/")) $("runs").querySelector(`[href="${CSS.escape(focused).replaceAll("\\", "")}"]`)?.focus();
  }

  async showRun(run) {
    const fresh = run.id !== this.id;
    this.id = run.id;
    const curves = await api.curves(run.id);
    if (this.id !== run.id) return;
    $("run-title").textContent = run.title;
    const { log, metrics } = curves;
    const last = (column) => column?.findLast((value) => value !== null);
    const facts = [
      run.game ? gameTitle(run.game) : null,
      log.games?.length ? `${last(log.games).toLocaleString("en")} games, ${last(log.iteration).toLocaleString("en")} solver steps` : null,
      last(log.opponent) ? `last match ${last(log.wins)} won, ${last(log.draws)} drawn, ${last(log.losses)} lost against ${last(log.opponent)} playouts` : null,
      last(metrics.mean_plies) ? `${last(metrics.mean_plies)} moves a game` : null,
    ];
    $("run-facts").textContent = facts.filter(Boolean).join(" · ");
    for (const { spec, card, chart } of this.charts) {
      const columns = curves[spec.group];
      const ys = trailingMean(columns[spec.y] ?? [], spec.mean ?? 1);
      card.hidden = !ys.some((value) => value !== null);
      if (!card.hidden) chart.show([{ name: spec.title, class: spec.class, x: columns[spec.x ?? "games"], y: ys, steps: spec.steps, dots: spec.dots }]);
    }
    if (fresh) {
      this.offset = 0;
      this.replay = null;
      this.run(false);
    }
    await this.list();
  }

  async turn(step) {
    this.offset = Math.max(0, this.offset + step);
    await this.list().catch((problem) => toast(problem.message));
  }

  async list() {
    const { id } = this;
    const { total, games } = await api.saved(id, this.offset, PAGE);
    if (id !== this.id) return;
    $("replay-card").hidden = total === 0;
    $("newer").disabled = this.offset === 0;
    $("older").disabled = this.offset + PAGE >= total;
    const key = games.map(({ number }) => number).join();
    if (key !== this.listed) {
      this.listed = key;
      $("saved").replaceChildren(...games.map((game) => h("li", {}, h("button", {
        type: "button", "data-number": game.number, onclick: () => this.open(game.number),
      }, h("span", {}, `Game ${game.number.toLocaleString("en")}`), h("span", { class: "muted" }, `${game.plies} moves`), h("span", { class: `result r${game.winner}` }, { 1: "1 – 0", [-1]: "0 – 1", 0: "½ – ½" }[game.winner])))));
    }
    if (!this.replay && games.length) await this.open(games[0].number);
    this.markOpen();
  }

  markOpen() {
    for (const button of $("saved").querySelectorAll("button")) {
      const current = Number(button.dataset.number) === this.number;
      if (current) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }

  async open(number) {
    try {
      this.replay = await api.replay(this.id, number);
    } catch (problem) {
      toast(problem.message);
      return;
    }
    this.number = number;
    this.run(false);
    this.step(this.replay.positions.length - 1);
    this.markOpen();
  }

  step(ply) {
    if (!this.replay || ply < 0 || ply >= this.replay.positions.length) return;
    this.view = ply;
    const { positions, kind, winner } = this.replay;
    const position = positions[ply];
    const end = ply === positions.length - 1;
    this.board.draw(this.replay, position, { line: end ? this.replay.line : [] });
    const names = sides(kind);
    const move = ply ? `Move ${ply} of ${positions.length - 1}: ${names[positions[ply - 1].to_move]} ${position.move}.` : "The start.";
    $("r-status").textContent = end ? `${move} ${winner ? `${names[winner]} wins.` : "A draw."}` : move;
    for (const [id, off] of [["r-first", ply === 0], ["r-back", ply === 0], ["r-forward", end], ["r-last", end]]) $(id).disabled = off;
  }

  run(playing) {
    this.playing = playing;
    clearInterval(this.clock);
    $("r-play").textContent = playing ? "Pause" : "Play";
    $("r-play").setAttribute("aria-pressed", String(playing));
    if (!playing || !this.replay) return;
    if (this.view === this.replay.positions.length - 1) this.step(0);
    this.clock = setInterval(() => {
      this.step(this.view + 1);
      if (this.view === this.replay.positions.length - 1) this.run(false);
    }, STEP_PAUSE);
  }
}

/** Each value's mean with the `count` - 1 before it: lines between two rounds of games would show no speed at all. */
function trailingMean(values, count) {
  return values.map((value, at) => {
    if (value === null || count === 1) return value;
    const window = values.slice(Math.max(0, at + 1 - count), at + 1).filter((one) => one !== null);
    return window.reduce((sum, one) => sum + one, 0) / window.length;
  });
}

function ago(seconds) {
  const minutes = Math.max(0, (Date.now() / 1000 - seconds) / 60);
  if (minutes < 60) return `${Math.round(minutes)} min ago`;
  if (minutes < 48 * 60) return `${Math.round(minutes / 60)} h ago`;
  return `${Math.round(minutes / 1440)} days ago`;
}
