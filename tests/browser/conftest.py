"""A real Chromium without a window, for pages from files; skipped where there is none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.failures import HOSTILE, failing_crowd, failing_run, wavecheck

READERS = "WAVECHECK_TEST_READERS"
"""Variable: a folder in whose ``node_modules`` the packages mermaid and speedscope are."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH, HEIGHT = 1400, 900
WAIT_S = 30
"""Safety net of one script in the page, in seconds."""


class Page:
    """One window."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path, place=""):
        """A file, as a person opens it; what the console said before is forgotten."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get(f"{Path(path).resolve().as_uri()}{place}")

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def later(self, script, *args):
        """Run a script that calls ``done`` in the end."""
        return self.driver.execute_async_script(
            f"const done = arguments[arguments.length - 1]; {script}", *args
        )

    def drawn(self):
        """Wait until the page has been drawn twice."""
        self.later("requestAnimationFrame(() => requestAnimationFrame(() => done()))")

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        (found,) = self.all(selector)
        return found

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def keys(self, *keys):
        """Type, whatever has the focus."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()
        self.drawn()

    def console(self):
        """What the console complains of."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in {"WARNING", "SEVERE"} and entry["source"] != "rendering"
        ]


def start(*, dark=False):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no Chromium: install chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    options.add_argument("--headless=new")
    options.add_argument("--no-sandbox")  # the tests may run as root, and open own files only
    options.add_argument("--disable-gpu")
    options.add_argument("--disable-dev-shm-usage")
    options.add_argument(f"--window-size={WIDTH},{HEIGHT}")
    options.add_argument(f"--blink-settings=preferredColorScheme={0 if dark else 1}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    found = webdriver.Chrome(options=options, service=service)
    found.set_script_timeout(WAIT_S)
    return found


@pytest.fixture(scope="session")
def window():
    driver = start()
    yield Page(driver)
    driver.quit()


@pytest.fixture
def dark_window():
    driver = start(dark=True)
    yield Page(driver)
    driver.quit()


@pytest.fixture(scope="session")
def readers():
    """Where readers of our exports are installed."""
    folder = Path(os.environ.get(READERS, ""), "node_modules")
    if not os.environ.get(READERS) or not folder.is_dir():
        pytest.skip(
            f"no readers: npm install --prefix DIR mermaid@12 speedscope@1, then {READERS}=DIR"
        )
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The JSON of a run with one violation."""
    return failing_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def page(run):
    """The page on it."""
    return written(run, run.with_suffix(".html"))


@pytest.fixture(scope="session")
def long_failure(tmp_path_factory):
    """A failure with more than 5,000 events, and a request id that would like to be a script."""
    return failing_crowd(tmp_path_factory.mktemp("crowd"), callers=600, request=HOSTILE)


@pytest.fixture(scope="session")
def long_page(long_failure):
    """The page on it."""
    return written(long_failure, long_failure.with_suffix(".html"))


def written(given, place, *words):
    done = wavecheck("report", given, "-o", place, *words)
    assert done.exit_code == 0, done.output
    return place
