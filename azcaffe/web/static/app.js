// SPDX-License-Identifier: AGPL-3.0-or-later
// The page: two views, chosen by the address' fragment, and the colour scheme.

import { $, store, toast } from "./dom.js";
import { api } from "./api.js";
import { Play } from "./play.js";
import { Training } from "./training.js";

const THEMES = ["system", "light", "dark"];
const SIGNS = { system: "◐", light: "☀", dark: "☾" };

function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").textContent = SIGNS[theme];
  $("theme").setAttribute("aria-label", theme === "system" ? "Colours: as the system" : `Colours: ${theme}`);
  store.set("theme", theme);
}

function connectTheme() {
  const known = store.get("theme", "system");
  let theme = THEMES.includes(known) ? known : "system";
  setTheme(theme);
  $("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    setTheme(theme);
  });
}

function route(training) {
  const [view, id] = location.hash.slice(1).split("/");
  const shown = view === "training" ? "training" : "play";
  $("view-play").hidden = shown !== "play";
  $("view-training").hidden = shown !== "training";
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = shown === "training" ? "Training – azcaffe" : "azcaffe";
  if (shown === "training") training.enter(id);
  else training.leave();
}

async function main() {
  connectTheme();
  const training = new Training();
  window.addEventListener("hashchange", () => route(training));
  route(training);
  try {
    const play = new Play(await api.setup());
    await play.start();
  } catch (problem) {
    $("status").textContent = problem.message;
    toast(problem.message);
  }
  document.documentElement.dataset.ready = "yes";
}

main();
