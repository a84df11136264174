# SPDX-License-Identifier: AGPL-3.0-or-later
"""The page in headless Chromium (Debian's chromium and chromium-driver), played by clicks and by keys."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the page needs FastAPI (extra web)")
pytest.importorskip("selenium", reason="the page is tested with selenium (extra dev)")

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from tests.helpers.waiting import PATIENCE

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs Debian's packages chromium and chromium-driver"),
    pytest.mark.slow,
]

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1280,900",
    "--disable-dev-shm-usage",
)  # fmt: skip


class Page:
    """The page as a person sees it."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver = driver
        self.url = url

    def open(self, fragment: str = "") -> None:
        """Load the page afresh, nothing remembered."""
        self.driver.get(self.url)
        self.driver.execute_script("localStorage.clear()")
        self.driver.get("about:blank")
        self.driver.get(self.url + fragment)
        self.until(lambda: self.driver.execute_script("return document.documentElement.dataset.ready"))

    def until(self, true: Callable[[], Any], seconds: float = 90) -> Any:
        """Wait for something to be so."""
        end = time.monotonic() + seconds
        while not (value := true()):
            assert time.monotonic() < end, f"still waiting; the page says {self.status!r}"
            time.sleep(0.05)
        return value

    def read(self, selector: str, attribute: str) -> list[str]:
        """An attribute (or `text`) of all elements, in one step, so that none can go away in between."""
        get = "e.textContent" if attribute == "text" else f"e.getAttribute('{attribute}')"
        return self.driver.execute_script(f"return [...document.querySelectorAll({selector!r})].map((e) => {get})")

    def id(self, name: str) -> WebElement:
        return self.driver.find_element(By.ID, name)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    @property
    def status(self) -> str:
        return self.id("status").text

    @property
    def moves(self) -> list[str]:
        return self.read("#moves button", "aria-label")

    def new(self, family: str, human: str, net: str | None = None, **fields: int) -> None:
        """Fill in the dialog and start."""
        self.id("new").click()
        Select(self.id("family")).select_by_value(family)
        for name, value in fields.items():
            self.id(name).clear()
            self.id(name).send_keys(str(value))
        if net is not None:
            Select(self.id("net")).select_by_value(net)
        self.driver.find_element(By.XPATH, f"//input[@name='human'][@value='{human}']/following-sibling::span").click()
        self.id("new-start").click()
        self.until(lambda: not self.driver.execute_script("return document.getElementById('new-dialog').open"))

    def my_turn_or_end(self, moves: int) -> None:
        """Wait until at least `moves` moves are on the list and the net does not think."""
        self.until(lambda: len(self.moves) >= moves and self.id("board").get_attribute("aria-busy") == "false")

    def moved_on(self, before: int) -> bool:
        """More than `before` moves are on the list."""
        return len(self.moves) > before

    @property
    def over(self) -> bool:
        return any(word in self.status for word in ("win", "draw"))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(PATIENCE)
    yield driver
    driver.quit()


@pytest.fixture
def page(driver: Any, port: int) -> Iterator[Page]:
    """The page, freshly opened; at the end, the browser must have had nothing to complain about (CSP included)."""
    page = Page(driver, f"http://127.0.0.1:{port}/")
    page.open()
    driver.get_log("browser")
    yield page
    assert [entry["message"] for entry in driver.get_log("browser")] == []


def test_a_whole_game_by_clicks(page: Page, tmp_path: Path) -> None:
    """First visit: 3x3 against the server's first net, the person begins. Every second move is the net's."""
    assert "Tic-tac-toe 3 × 3" in page.id("game-title").text
    assert "Your move: you are ✕" in page.status
    while not page.over:
        before = len(page.moves)
        page.all("#board .cell.open")[0].click()
        page.until(partial(page.moved_on, before))
        page.until(lambda: page.over or "Your move" in page.status)
    assert len(page.moves) == len(page.all("#board .stone.one")) + len(page.all("#board .stone.two"))
    won = page.all("#board .cell.won")
    assert len(won) >= 3 if "win" in page.status else not won
    assert page.id("hint").get_attribute("disabled") and not page.all("#board .cell.open")
    assert len(page.all("#board .cell.last")) == 1
    page.driver.save_screenshot(str(tmp_path / "end.png"))
    assert (tmp_path / "end.png").stat().st_size > 5_000


def test_overlays_and_looking_back(page: Page) -> None:
    for name in ("show-policy", "show-visits"):
        page.id(name).click()
    page.until(lambda: page.all("#analysis tbody tr"))
    shares = page.until(lambda: [text for text in page.read(".share.policy", "text") if text])
    assert all(text.endswith("%") for text in shares)
    assert page.id("legend").is_displayed()
    assert abs(float(page.id("valuebar").get_attribute("aria-valuenow"))) <= 1
    page.all("#board .cell.open")[4].click()
    page.my_turn_or_end(2)
    assert page.all("#value-chart .series circle")
    page.id("back").click()
    page.id("back").click()
    assert not page.all("#board .stone.one, #board .stone.two")
    page.id("forward").click()
    page.id("resume").click()  # play from here: the net answers anew
    page.my_turn_or_end(2)
    page.id("undo").click()
    page.until(lambda: page.moves == [])
    page.id("hint").click()
    page.until(lambda: page.all("#board .cell.hint"))
    assert "Hint:" in page.status


def test_the_keyboard_is_enough(page: Page) -> None:
    """Arrow keys walk the board, Enter plays; the focus stays on the board and every square has a name."""
    labels = page.read("#board button.cell", "aria-label")
    assert labels[0] == "a1, empty" and labels[5] == "c2, empty" and len(set(labels)) == 9
    start = page.driver.find_element(By.CSS_SELECTOR, "#board button[tabindex='0']")
    page.driver.execute_script("arguments[0].focus()", start)
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.END, Keys.HOME, Keys.ARROW_RIGHT):
        page.driver.switch_to.active_element.send_keys(key)
    focused = page.driver.switch_to.active_element
    assert focused.get_attribute("aria-label") == "b2, empty"
    outline = page.driver.execute_script("return getComputedStyle(arguments[0]).outlineStyle", focused)
    assert outline == "solid"
    focused.send_keys(Keys.ENTER)
    page.my_turn_or_end(2)
    assert page.moves[0] == "Move 1, cross: b2"
    assert page.driver.switch_to.active_element.get_attribute("aria-label").startswith("b2, cross")
    assert page.id("status").get_attribute("aria-live") == "polite"
    assert "The net played" in page.status


def test_connect_four_columns(page: Page) -> None:
    page.new("connectn", "both", height=4, width=5, connect=3)
    for column in (0, 1, 0, 1, 0):
        page.all("#board .drop")[column].click()
        page.until(lambda: "to move" in page.status or page.over)
        page.my_turn_or_end(1)
    page.until(lambda: "Blue wins" in page.status)
    won = page.read("#board .cell.won", "aria-label")
    assert len(won) == 3 and won[0].startswith("column 0 row 2, Blue")


def test_watching_and_pausing(page: Page) -> None:
    page.new("tictactoe", "none", "rollouts", height=3, width=3, connect=3)
    page.until(lambda: len(page.moves) >= 2)
    page.id("pause").click()
    page.until(lambda: page.id("board").get_attribute("aria-busy") == "false")  # a move under way still comes
    stopped = len(page.moves)
    assert "Go on" in page.id("pause").text
    time.sleep(1.5)
    assert len(page.moves) == stopped
    page.id("pause").click()
    page.until(lambda: page.over)
    assert not page.id("pause").is_displayed()


def test_impossible_boards_are_said_in_the_dialog(page: Page) -> None:
    page.id("new").click()
    page.id("connect").clear()
    page.id("connect").send_keys("9")
    page.id("new-start").click()
    page.until(lambda: "connect must be" in page.id("new-problem").text)
    page.id("new-cancel").click()
    page.driver.get_log("browser")  # the refusal is in the browser's log


def test_training_curves_and_replay(page: Page) -> None:
    page.driver.get(page.url + "#training")
    page.until(lambda: page.all(".run"))
    page.until(lambda: page.all("#curves .card path"))
    titles = [card.text.split("\n")[0] for card in page.all("#curves .card") if card.is_displayed()]
    assert titles == ["Value loss", "Policy loss", "KL divergence", "Opponent", "Score against roll-outs", "Speed"]
    assert "50 games, 500 solver steps" in page.id("run-facts").text
    page.until(lambda: "A draw" in page.id("r-status").text)  # the newest game
    page.driver.find_element(By.CSS_SELECTOR, "#saved [data-number='0']").click()
    page.until(lambda: "✕ wins" in page.id("r-status").text)
    assert len(page.all("#replay-board .cell.won")) == 3
    page.id("r-first").click()
    assert page.id("r-status").text == "The start."
    page.id("r-forward").click()
    assert "Move 1 of 5: ✕ a1" in page.id("r-status").text


def test_phone_width_and_dark(page: Page, driver: Any) -> None:
    metrics = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        for fragment in ("", "#training"):
            page.open(fragment)
            page.until(lambda: page.id("board").text is not None)
            width, inner = driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
            assert width <= inner, "the page scrolls sideways"
        page.open()
        background = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(20, 23, 27)"
        cells = [cell.rect for cell in page.all("#board button.cell")]
        assert min(min(rect["width"], rect["height"]) for rect in cells) >= 44  # a finger's size
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
