"""A real browser for tests of pages: Debian's chromium, driven by Playwright. No page reaches beyond this machine.

A test takes the fixture ``browser``, which skips it where either is missing.
"""

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

WIDTHS = (400, 800, 1300)
"""Widths of windows that pages must suit: a phone, half a screen, a screen; in CSS pixels."""

_ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# What sticks out of the window to the right, outermost elements that nothing around them clips or scrolls.
_WIDE = """() => {
  const room = document.documentElement.clientWidth;
  const clipped = one => {
    for (let at = one.parentElement; at && at !== document.body; at = at.parentElement)
      if (getComputedStyle(at).overflowX !== "visible") return true;
    return false;
  };
  return [...document.body.querySelectorAll("*")]
    .filter(one => one.getBoundingClientRect().right > room + 1 && !clipped(one))
    .map(one => one.outerHTML.slice(0, 120));
}"""

# Without this, what is measured right after a window has another width is still on its way.
_STILL = """addEventListener("DOMContentLoaded", () => {
  const style = document.createElement("style");
  style.textContent = "*, *::before, *::after { transition: none !important; animation: none !important; }";
  document.head.append(style);
})"""


class Browser:
    """A browser that is running."""

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium
        self.refused: list[str] = []
        """Addresses that pages asked for beyond this machine; none was reached."""

    def open(self, page: str | Path, width: int = 1300, *, height: int = 900, dark: bool = False) -> Any:
        """A page in a window of its own, loaded, without animations: a ``playwright.sync_api.Page``.

        Args:
            page: address on loopback (see `served`), or a file.
            width: of the window, in CSS pixels; so is ``height``.
            dark: whether the reader prefers dark colours.
        """
        address = page.resolve().as_uri() if isinstance(page, Path) else page
        window = self._chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        window.route("**/*", self._pass)
        window.add_init_script(_STILL)
        opened = window.new_page()
        opened.goto(address, wait_until="load")
        return opened

    def _pass(self, route: Any) -> None:
        address = urlsplit(route.request.url)
        if address.scheme in ("file", "data", "blob") or address.hostname == "127.0.0.1":
            route.continue_()
        else:
            self.refused.append(route.request.url)
            route.abort()


def too_wide(page: Any) -> list[str]:
    """Beginnings of what makes a page scroll sideways; empty if it does not. Parts may scroll inside themselves."""
    if page.evaluate("() => document.scrollingElement.scrollWidth <= document.documentElement.clientWidth"):
        return []
    return page.evaluate(_WIDE) or ["the page scrolls sideways"]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback; gives its address, which ends in a slash."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start a browser; skip the test where there is none."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no browser is installed: apt-get install chromium")
    reason = "the driver of the browser is not installed: make setup EXTRA=docs"
    driver = pytest.importorskip("playwright.sync_api", reason=reason)
    with driver.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=[*_ARGUMENTS])
        try:
            yield Browser(launched)
        finally:
            launched.close()
