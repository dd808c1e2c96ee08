"""The page of `check --format html` in a real browser engine (Chromium), where there is one.

The picture in the docs is of the page that this makes, with the extra [hivm] for what it says of memory:
`SCREENSHOT=docs/report.png make test T=tests/checking/test_browser.py`.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from triton_ascend_compat.cli import main

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed here")

KERNELS = """
import triton
import triton.language as tl
from triton_ascend_compat.offline import Pointer

@triton.autotune(
    [triton.Config({"BLOCK": n, "auto_blockify_size": size}) for n in (1024, 4096) for size in (2, 8)],
    key=["n"],
)
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * 2.0, at < n)

@triton.jit
def total(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y, tl.sum(tl.load(x + at, at < n, other=0.0)))

@triton.jit
def pick(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) + tl.arange(0, 48))

for dtype in ("fp32", "fp16"):
    x, y = Pointer(dtype), Pointer(dtype)
    scale[(1024,)](x, y, 1_000_000)
    total[(1,)](x, y, 1000, BLOCK=1024)
pick[(1,)](x, y, BLOCK=64)
"""

#: Loads the page, without scripts, at two widths, and writes what it finds into its own title.
HARNESS = """<title>-</title><script>
const found = {};
for (const width of [1100, 360]) {
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-same-origin";
  frame.style.width = width + "px";
  frame.onload = () => {
    const page = frame.contentDocument, more = page.querySelector("details");
    const height = () => more.getBoundingClientRect().height;
    found[width] = {
      text: page.body.innerText, heads: [...page.querySelectorAll("h2")].map(each => each.innerText),
      sideways: page.documentElement.scrollWidth - page.documentElement.clientWidth,
      folded: height(), scripts: page.scripts.length,
      bad: getComputedStyle(page.querySelector("p.verdict")).color,
    };
    more.open = true;
    found[width].unfolded = height();
    document.title = JSON.stringify(found);
  };
  frame.src = "page.html";
  document.documentElement.append(frame);
}
</script>"""


class _Server(http.server.SimpleHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012 - of the one server of this module

    def log_message(self, *_: Any) -> None:
        self.asked.append(self.path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (folder / "kernels.py").write_text(KERNELS)
    (folder / "index.html").write_text(HARNESS)
    arguments = ["--format=html", "--output=page.html", "--chip=Ascend910B2,Ascend910_9589"]
    if importlib.util.find_spec("ascendnpuir") is not None:
        arguments.append("--hivm")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = CliRunner().invoke(main, ["check", *arguments, "kernels.py"])
    assert done.exit_code == 1, done.output
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    try:
        browse("about:blank", folder, "--dump-dom")
    except subprocess.SubprocessError as error:
        pytest.skip(f"{BROWSER} does not start here: {error}")
    handler = functools.partial(_Server, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def browse(address: str, folder: Path, *arguments: str) -> str:
    quiet = ("disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-sync")
    flags = [f"--{flag}" for flag in ("headless", "no-sandbox", *quiet, "disable-component-update")]
    command = [str(BROWSER), *flags, f"--user-data-dir={folder / 'browser'}", *arguments, address]
    home = {name: str(folder / "home") for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    done = subprocess.run(
        command, env={**os.environ, **home}, capture_output=True, text=True, timeout=100, check=True
    )
    return done.stdout


def test_it_shows_everything_and_loads_nothing(address: str, folder: Path) -> None:
    shown = browse(address, folder, "--dump-dom", "--virtual-time-budget=5000")
    title = re.search("<title>(.*?)</title>", shown, re.DOTALL)
    assert title is not None
    found = json.loads(unescape(title[1]))
    assert set(found) == {"1100", "360"}
    for page in found.values():
        assert page["heads"] == ["Failures", "Ascend910B2", "Ascend910_9589", "Options", "Targets"]
        assert "Failed: 22 compiles of 3 kernels, 2 failed" in page["text"]
        assert "tl.store(y + at, tl.load(x + at) + tl.arange(0, 48))" in page["text"]
        assert 0 < page["folded"] < page["unfolded"]
        assert page["scripts"] == 0
        assert page["sideways"] == 0
        assert page["bad"] != "rgb(0, 0, 0)"
    assert {path for path in _Server.asked if "favicon" not in path} == {"/", "/page.html"}


def test_the_picture(address: str, folder: Path) -> None:
    picture = Path(os.environ.get("SCREENSHOT") or folder / "picture.png").resolve()
    size = ("--window-size=1000,1090", "--hide-scrollbars")
    browse(f"{address}/page.html", folder, *size, f"--screenshot={picture}")
    assert picture.read_bytes().startswith(b"\x89PNG")
