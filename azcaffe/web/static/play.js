// SPDX-License-Identifier: AGPL-3.0-or-later
// The game in progress: whose turn it is, what is shown, and what the buttons do.

import { $, store, toast, gameTitle, sides, signed } from "./dom.js";
import { api } from "./api.js";
import { Board, spoken } from "./board.js";
import { Chart } from "./chart.js";
import { NewGame, fillStrengths } from "./newgame.js";
import { AnalysisTable } from "./analysis.js";
import { drawLegend, drawMoves, drawPlayers, drawValue } from "./panels.js";

const SHOW = ["policy", "visits", "value", "chart"];
const WATCH_PAUSE = 700;
const REPLY_PAUSE = 250;

export class Play {
  constructor(setup) {
    this.setup = setup;
    this.epoch = 0; // goes up with every new position, so that late answers are noticed
    this.game = null;
    this.paused = false;
    this.hint = null;
    this.show = { policy: false, visits: false, value: true, chart: true, ...store.get("show", {}) };
    this.board = new Board($("board"), (action) => this.move(action));
    this.table = new AnalysisTable($("analysis"));
    this.chart = new Chart($("value-chart"), {
      height: 130, across: "move", low: -1, high: 1, left: 0, zero: true, whole: true, label: "Value over the game",
      onPick: (ply) => this.lookAt(Math.max(0, Math.min(this.ply, ply))),
    });
    this.dialog = new NewGame(setup, (choice) => this.begin(choice));
    this.connect();
  }

  connect() {
    const on = (id, action) => $(id).addEventListener("click", action);
    on("new", () => this.dialog.open(this.simulations));
    on("undo", () => this.undo());
    on("hint", () => this.giveHint());
    on("pass", () => this.move(this.passMove.action));
    on("pause", () => this.setPaused(!this.paused));
    on("first", () => this.lookAt(0));
    on("back", () => this.lookAt(this.view - 1));
    on("forward", () => this.lookAt(this.view + 1));
    on("last", () => this.lookAt(this.ply));
    on("resume", () => this.undoTo(this.view));
    for (const name of SHOW) {
      const box = $(`show-${name}`);
      box.checked = this.show[name];
      box.addEventListener("change", () => {
        this.show[name] = box.checked;
        store.set("show", this.show);
        this.draw();
        this.analyse();
      });
    }
    $("strength").addEventListener("change", () => this.analyse());
    window.addEventListener("pagehide", () => {
      if (this.game) fetch(`/api/games/${this.game.id}`, { method: "DELETE", keepalive: true });
    });
  }

  get ply() { return this.game.positions.length - 1; }

  get simulations() { return Number($("strength").value); }

  get toMove() { return this.game.positions.at(-1).to_move; }

  get machine() { return this.net.policy ? "The net" : "The search"; }

  get net() { return this.setup.nets.find(({ id }) => id === this.game.net); }

  /** Whether a person has side 1 or -1. */
  isHuman(side) {
    const { human } = this.game;
    return human === "both" || (human === "first" && side === 1) || (human === "second" && side === -1);
  }

  async start() {
    const choice = this.dialog.choice();
    await this.begin(choice).catch((problem) => this.fail(problem));
  }

  /** Begin a game; rejects with a Problem when the server refuses. */
  async begin(choice) {
    const game = await api.begin(choice.game, choice.net, choice.human);
    if (this.game) api.forget(this.game.id).catch(() => {});
    this.variety = choice.variety;
    this.paused = false;
    this.analyses = new Map();
    this.set(game);
    fillStrengths($("strength"), this.net, this.setup.max_simulations, choice.simulations);
    this.say(this.isHuman(1) ? `New game: ${gameTitle(game.game)}.` : "New game.");
    this.proceed();
  }

  /** A new latest position. */
  set(game) {
    this.epoch += 1;
    this.asking?.abort();
    this.game = game;
    this.view = this.ply;
    this.hint = null;
    this.busy = false;
    for (const ply of this.analyses.keys()) if (ply > this.ply) this.analyses.delete(ply);
    this.draw();
  }

  /** What comes next: the end, a person's turn, or the net's move. */
  async proceed() {
    const epoch = this.epoch;
    if (this.game.over) {
      this.announceEnd();
      return;
    }
    if (this.isHuman(this.toMove)) {
      this.announceTurn();
      this.analyse();
      return;
    }
    if (this.paused) {
      this.analyse();
      return;
    }
    if (this.replying === epoch) return; // under way already: paused and gone on meanwhile
    this.replying = epoch;
    this.busy = true;
    this.draw();
    this.say(`${this.said ?? ""} ${this.game.human === "none" ? "" : `${this.machine} is thinking.`}`.trim() || `${this.machine} plays itself.`);
    await new Promise((done) => { setTimeout(done, this.game.human === "none" && this.ply ? WATCH_PAUSE : REPLY_PAUSE); });
    if (epoch !== this.epoch) return;
    if (this.paused) {
      this.replying = null;
      this.busy = false;
      this.draw();
      this.analyse();
      return;
    }
    try {
      const { game, analysis } = await api.reply(this.game.id, this.ply, this.simulations, this.variety && this.ply < 4);
      if (epoch !== this.epoch) return;
      const follow = this.view === this.ply;
      const view = this.view;
      this.analyses.set(analysis.ply, analysis);
      this.set(game);
      if (!follow && this.game.human === "none") this.lookAt(view);
      this.said = `${this.actor(analysis.to_move)} ${this.moved(this.ply)}`;
      this.proceed();
    } catch (problem) {
      if (epoch === this.epoch) await this.recover(problem);
    }
  }

  async move(action) {
    if (this.busy || this.view !== this.ply || !this.isHuman(this.toMove)) return;
    this.busy = true;
    this.asking?.abort();
    const { epoch } = this;
    try {
      const game = await api.move(this.game.id, this.ply, action);
      if (epoch !== this.epoch) return;
      this.said = "";
      this.set(game);
      if (this.game.human === "both") this.said = `${spoken(sides(game.kind)[-this.toMove])} ${this.moved(this.ply)}`;
      this.proceed();
    } catch (problem) {
      if (epoch === this.epoch) await this.recover(problem);
    }
  }

  /** Where page and server disagree about the position, the server is right. */
  async recover(problem) {
    if (problem.status !== 409) {
      this.fail(problem);
      return;
    }
    try {
      this.set(await api.look(this.game.id));
      this.proceed();
    } catch (other) {
      this.fail(other);
    }
  }

  /** Take back to the person's last decision; while watching, one move. */
  undo() {
    if (!this.ply) return;
    let ply = this.ply - 1;
    if (this.game.human === "none") this.setPaused(true);
    else while (ply > 0 && !this.isHuman(this.game.positions[ply].to_move)) ply -= 1;
    this.undoTo(ply);
  }

  async undoTo(ply) {
    this.epoch += 1;
    const epoch = this.epoch;
    try {
      const game = await api.undo(this.game.id, ply);
      if (epoch !== this.epoch) return;
      this.set(game);
      this.said = "Taken back.";
      this.proceed();
    } catch (problem) {
      this.fail(problem);
    }
  }

  async giveHint() {
    const analysis = await this.fetchAnalysis(this.view);
    if (!analysis || analysis.ply !== this.view) return;
    const [best] = analysis.moves;
    this.hint = best.action;
    this.draw();
    this.say(`Hint: ${best.name}, value ${signed(best.q)} for ${spoken(sides(this.game.kind)[analysis.to_move])}.`);
  }

  setPaused(paused) {
    this.paused = paused; // a move that is being thought about still comes
    this.draw();
    if (paused) this.say("Paused.");
    else this.proceed();
  }

  lookAt(ply) {
    if (ply < 0 || ply > this.ply) return;
    this.view = ply;
    this.hint = null;
    this.draw();
    this.analyse();
  }

  /** Fetch what the toggles need of the position shown. */
  async analyse() {
    if (!this.game || !(SHOW.some((name) => this.show[name]))) return;
    if (this.busy || (this.view === this.ply && this.game.human === "none" && !this.paused)) return;
    if (await this.fetchAnalysis(this.view)) this.draw();
  }

  async fetchAnalysis(ply) {
    if (this.game.over && ply === this.ply) return null;
    const known = this.analyses.get(ply);
    if (known && known.playouts >= this.simulations) return known;
    const { id } = this.game;
    const { epoch } = this;
    this.asking?.abort();
    this.asking = new AbortController();
    try {
      const found = await api.analysis(id, ply, this.simulations, this.asking.signal);
      if (id !== this.game.id || (epoch !== this.epoch && ply > this.ply)) return null;
      this.analyses.set(ply, found);
      return found;
    } catch (problem) {
      if (problem.status !== 409 && problem.name !== "AbortError" && id === this.game.id && epoch === this.epoch) this.fail(problem);
      return null;
    }
  }

  fail(problem) {
    this.busy = false;
    this.replying = null;
    toast(problem.message);
    if (this.game) this.draw();
    if (problem.status === 404 && this.game) this.say("This game has expired. Start a new one.");
  }

  say(text) { $("status").textContent = text; }

  /** "You", or who else plays that side. */
  actor(side) {
    if (this.game.human === "both" || this.game.human === "none") return spoken(sides(this.game.kind)[side]);
    return this.isHuman(side) ? "You" : this.machine;
  }

  moved(ply) { return `played ${this.game.positions[ply].move}.`; }

  announceTurn() {
    const name = sides(this.game.kind)[this.toMove];
    const turn = this.game.human === "both" ? `${name} to move.` : `Your move: you are ${name}.`;
    this.say(`${this.said ?? ""} ${turn}`.trim());
    this.said = "";
  }

  announceEnd() {
    const name = sides(this.game.kind)[this.game.winner];
    const [people, winner] = [this.game.human, this.game.winner];
    const one = people === "first" || people === "second";
    const text = winner === 0 ? "A draw." : one ? (this.isHuman(winner) ? "You win!" : `${this.machine} wins as ${name}.`) : `${name} wins.`;
    this.say(`${this.said ?? ""} ${text}`.trim());
    this.said = "";
    this.draw();
  }

  draw() {
    const { game, view } = this;
    if (!game) return;
    const position = game.positions[view];
    const atEnd = view === this.ply;
    const analysis = this.analyses.get(view);
    const waiting = this.busy || this.paused;
    const shares = (field) => (analysis ? new Map(analysis.moves.map((move) => [move.action, move[field]])) : null);
    const legal = atEnd ? game.legal : (analysis?.moves ?? []);
    const human = !game.over && this.isHuman(this.toMove);
    this.board.draw(game, position, {
      legal, playable: atEnd && human && !this.busy, line: atEnd ? game.line : [], hint: this.hint,
      policy: this.show.policy && this.net.policy ? shares("prior") : null,
      visits: this.show.visits && analysis?.playouts ? shares("share") : null,
    });
    $("board").setAttribute("aria-busy", String(this.busy));
    this.passMove = game.legal.find((move) => move.cell === null && game.kind !== "text");
    $("pass").hidden = !(this.passMove && human && atEnd);
    $("undo").disabled = this.ply === 0;
    $("hint").disabled = (atEnd && (game.over || (!human && !waiting))) || this.busy;
    $("pause").hidden = game.human !== "none" || game.over;
    $("pause").textContent = this.paused ? "Go on" : "Pause";
    $("pause").setAttribute("aria-pressed", String(this.paused));
    for (const [id, off] of [["first", view === 0], ["back", view === 0], ["forward", atEnd], ["last", atEnd]]) $(id).disabled = off;
    $("resume").hidden = atEnd;
    for (const id of ["policy", "visits"]) $(`show-${id}`).disabled = id === "policy" && !this.net.policy;
    drawPlayers(this);
    drawValue(this, position, analysis);
    drawMoves(this);
    drawLegend(this);
    $("analysis-card").hidden = !analysis;
    if (analysis) this.table.show(analysis, game.kind);
  }
}
