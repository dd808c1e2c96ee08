"""What computed launches take, against Triton's interpreter: the same kernels, arguments and grids.

Two processes take turns, kernel by kernel, so that what else the machine does hits both. Each side's figure
is its fastest turn. `python benchmarks/executing.py` writes the table into docs/executing-kernels.md.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "executing-kernels.md"
TURNS = 3

#: A turn lasts about this many seconds, or one launch.
SECONDS = 0.05


def cases() -> list[Any]:
    """The kernels of the tests, and some of them on large arguments."""
    import numpy as np

    sys.path.insert(0, str(ROOT))
    from tests.offline.execute import cases as make
    from tests.offline.execute.test_kernels import CASES as found

    named = {str(case): case for case in found}

    def large(name: str, label: str, grid: tuple[int, ...], arguments: Mapping[str, Any]) -> Any:
        case = named[name]
        return replace(case, name=label, grid=grid, arguments={**case.arguments, **arguments}, tolerance=1e-2)

    n, half = 1 << 20, np.float16
    row = {"a": make.normal(512, 1000), "o": make.empty(512, 1000), "columns": 1000, "C": 1024}
    weights = {"w": make.normal(1000), "b": make.normal(1000)}
    factors = {"a": make.normal(256, 256, dtype=half), "b": make.normal(256, 256, dtype=half)}
    product = {"o": make.empty(256, 256), "n": 256, "m": 256, "k": 256, "N": 64, "M": 64, "K": 32}
    heads = {name: make.normal(512, 64) for name in ("q", "k", "v")}
    blocks = {"o": make.empty(512, 64), "n": 512, "D": 64, "Q": 64, "K": 64, "scale": 0.125}
    return [
        *found,
        large(
            "add", "add, 1M fp32", (1024,), {"n": n, "X": 1024, **{name: make.normal(n) for name in "abo"}}
        ),
        large("softmax", "softmax, 512 x 1000", (512,), row),
        large("layer_norm", "layer norm, 512 x 1000", (512,), row | weights),
        large("tiled", "matrix product, 256 cubed fp16", (4, 4), factors | product),
        large("attention", "attention, 512 x 64", (8,), heads | blocks),
    ]


@dataclass(frozen=True)
class _Named:
    name: str

    def __str__(self) -> str:
        return self.name


class _Tensor:
    """A NumPy array as what the interpreter takes for a tensor on the CPU."""

    device = "cpu"

    def __init__(self, array: Any) -> None:
        self.array = getattr(array, "bits", array)
        self.dtype = _Named(str(array.dtype))  # the interpreter takes a plain str for a Triton type
        self.data = self

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def cpu(self) -> _Tensor:
        return self

    def to(self, device: str) -> _Tensor:
        return self

    def copy_(self, other: _Tensor) -> None:
        """It is the same memory."""


def serve(side: str) -> None:
    """One side: for each number of a case that is asked for, a line with what came of it."""
    every = cases()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if side == "interpreter":
        _serve(every, answers, interpreted=True)
        return
    from triton_ascend_compat.offline import offline

    with offline(execute="unguarded" if side == "computed" else True):
        _serve(every, answers, interpreted=False)


def _serve(every: list[Any], answers: Any, interpreted: bool) -> None:
    lowering = [] if interpreted else _watched_lowering()
    for line in sys.stdin:
        case = every[int(line)]
        told: dict[str, Any] = {}
        try:
            told = {**_turn(case, interpreted), "verdict": _verdict(case, interpreted)}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"}
        told["lowering"] = lowering[:]
        lowering.clear()
        answers.write(json.dumps(told) + "\n")
        answers.flush()


def _busy() -> float:
    """Seconds of CPU time of this process, and of those that it started and that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _watched_lowering() -> list[list[float]]:
    """Seconds of each lowering, from now on: anew, again from the cache, and of CPU time anew."""
    from triton_ascend_compat.offline.execute import lowering

    original: Any = lowering.lower
    seen: list[list[float]] = []

    def lower(*arguments: Any) -> Any:
        started, cpu = time.perf_counter(), _busy()
        original(*arguments)
        between, cpu = time.perf_counter(), _busy() - cpu
        lowered = original(*arguments)
        seen.append([between - started, time.perf_counter() - between, cpu])
        return lowered

    lowering.lower = lower  # type: ignore[assignment]
    return seen


def _launch(case: Any, interpreted: bool) -> tuple[Mapping[str, Any], Any]:
    given = case.fresh()
    arguments = {
        name: _Tensor(value) if interpreted and hasattr(value, "__array_interface__") else value
        for name, value in given.items()
    }
    return given, lambda: case.kernel[case.grid](**arguments)


def _turn(case: Any, interpreted: bool) -> dict[str, float]:
    """Seconds of one launch, of this process's CPU and of the clock: the least of as many as fit into a
    turn, after one that warms up."""
    _, launch = _launch(case, interpreted)
    busy, clock = [], []

    def one() -> None:
        started, cpu = time.perf_counter(), time.process_time()
        launch()
        busy.append(time.process_time() - cpu)
        clock.append(time.perf_counter() - started)

    one()
    if not interpreted or clock[0] < 1:
        busy.clear()
        clock.clear()
        until = time.perf_counter() + SECONDS
        while not clock or time.perf_counter() < until:
            one()
    return {"seconds": min(busy), "clock": min(clock)}


def _verdict(case: Any, interpreted: bool) -> str:
    given, launch = _launch(case, interpreted)
    launch()
    try:
        case.check(given)
    except AssertionError:
        return "other numbers"
    return "right"


@dataclass
class Side:
    """A process that launches kernels in one way."""

    name: str
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, name: str, folder: str) -> Side:
        names = {"TRITON_CACHE_DIR": "cache", "TRITON_DUMP_DIR": "dump", "TRITON_HOME": "home"}
        environment = {**os.environ, **{key: f"{folder}/{name}/{value}" for key, value in names.items()}}
        if name == "interpreter":
            environment["TRITON_INTERPRET"] = "1"
        command = [sys.executable, "-W", "ignore", __file__, name]
        return cls(
            name,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            ),
        )

    def turn(self, number: int) -> dict[str, Any]:
        """What came of one turn of a case."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def end(self) -> None:
        """Let it end, and wait for it."""
        self.process.communicate()


def measure() -> tuple[list[dict[str, Any]], list[list[float]]]:
    """A row for each case, with what each side told, and the seconds of each lowering."""
    names = [(str(case), case.grid) for case in cases()]
    rows: list[dict[str, Any]] = []
    lowerings: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        sides = [Side.start(name, folder) for name in ("computed", "guarded", "interpreter")]
        for number, (name, grid) in enumerate(names):
            told: dict[str, Any] = {"kernel": name, "grid": " x ".join(str(size) for size in grid)}
            for turn in range(TURNS):
                for side in sides if turn % 2 == 0 else reversed(sides):
                    before = told.get(side.name, {})
                    if "error" in before or before.get("seconds", 0) > 1:
                        continue
                    now = side.turn(number)
                    if side.name == "computed":
                        lowerings += now["lowering"]
                    for kind in {"seconds", "clock"} & now.keys() & before.keys():
                        now[kind] = min(now[kind], before[kind])
                    told[side.name] = now
            rows.append(told)
            print(f"{number + 1}/{len(names)} {name}", file=sys.stderr)
        for side in sides:
            side.end()
    return rows, lowerings


def _floors() -> tuple[float, float, float]:
    """Milliseconds of a bare start of bishengir-opt, of a fork of a process that has Triton loaded, and of a
    launch offline that computes nothing."""
    from triton_ascend_compat.offline import hivm, offline

    def fork() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

    def start() -> None:
        subprocess.run(
            [hivm.find_tools() / "bishengir-opt", "--version"], stdout=subprocess.DEVNULL, check=True
        )

    def least(work: Any, repeats: int = 20) -> float:
        times = []
        for _ in range(repeats):
            started = time.perf_counter()
            work()
            times.append(1e3 * (time.perf_counter() - started))
        return min(times)

    add = next(case for case in cases() if str(case) == "add")
    with tempfile.TemporaryDirectory() as folder, offline(cache=Path(folder)):
        return least(start), least(fork), least(_launch(add, interpreted=False)[1], 2000)


def page(rows: list[dict[str, Any]], lowerings: list[list[float]]) -> str:
    """The measured part of the page."""
    both = [row for row in rows if all("seconds" in row[side] for side in ("computed", "interpreter"))]
    ratios = {row["kernel"]: row["interpreter"]["seconds"] / row["computed"]["seconds"] for row in both}
    guarded = [row for row in rows if all("seconds" in row[side] for side in ("computed", "guarded"))]
    price = [row["guarded"]["clock"] / row["computed"]["clock"] for row in guarded]
    right = {
        side: sum(row[side].get("verdict") == "right" for row in rows)
        for side in ("computed", "guarded", "interpreter")
    }
    failed = sum("error" in row["interpreter"] for row in rows)
    opt, fork, idle = _floors()
    made_anew = [one for one in lowerings if 1e3 * one[0] > opt]  # not those found in the cache at once
    lowered, cached, cpu = ([1e3 * one[k] for one in made_anew] for k in (0, 1, 2))
    ratio, plain = statistics.median(ratios.values()), statistics.median(price)
    made, found = statistics.median(lowered), statistics.median(cached)
    busy = os.getloadavg()[1]
    lines = [
        f"{_machine()}, {time.strftime('%B %Y')}. {len(rows)} kernels, each launched by both sides in "
        f"{TURNS} turns; the fastest launch of all turns counts. CPU time; but for guarded launches and "
        "lowering, which take more than one process, that of the clock, which suffers from what else runs: "
        f"{busy:.1f} processes were running on average.",
        "",
        f"- Triton's interpreter takes **{ratio:.0f} times** as long as a computed launch "
        f"(median of {len(ratios)} kernels that both ran; {min(ratios.values()):.1f} to "
        f"{max(ratios.values()):.0f} times). The median launch takes {_median(both, 'computed'):.3f} ms "
        f"computed and {_median(both, 'interpreter'):.2f} in the interpreter.",
        f"- A guarded launch takes {plain:.1f} times as long as a plain one "
        f"(median; {_worst(guarded, price)}). Kernels that follow addresses run in a forked copy of the "
        f"process first: a fork alone takes {fork:.1f} ms here.",
        f"- Lowering a kernel takes {made:.0f} ms (median; at most {max(lowered):.0f}; of CPU time "
        f"{statistics.median(cpu):.0f} and {max(cpu):.0f}), "
        f"from the cache {found:.2f} ms (at most {max(cached):.2f}). The least is {min(lowered):.0f} "
        f"ms, of which {2 * opt:.0f} are two bare starts of bishengir-opt.",
        f"- The floor: launching `add` offline without computing it takes {idle:.3f} ms, which is Triton's "
        "JIT and the session's record of the launch; a small kernel cannot be faster than that.",
        f"- As NumPy has it: {right['computed']} computed, {right['guarded']} guarded, "
        f"{right['interpreter']} interpreted; {failed} did not run in the interpreter.",
        "",
        "| Kernel | Grid | Computed, ms | Guarded, ms | Interpreter, ms | Ratio | Interpreter says |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for row in sorted(rows, key=lambda row: -ratios.get(row["kernel"], 0)):
        cells = [row["kernel"], row["grid"]]
        kinds = {"computed": "seconds", "guarded": "clock", "interpreter": "seconds"}
        cells += [_milliseconds(row[side], kind) for side, kind in kinds.items()]
        cells.append(f"{ratios[row['kernel']]:.0f}" if row["kernel"] in ratios else "-")
        interpreter = row["interpreter"]
        cells.append(interpreter.get("error") or interpreter["verdict"])
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _median(rows: list[dict[str, Any]], side: str) -> float:
    """Milliseconds of the median launch."""
    return 1e3 * float(statistics.median(row[side]["seconds"] for row in rows))


def _worst(rows: list[dict[str, Any]], price: list[float]) -> str:
    """The two largest prices, with their kernels."""
    last = sorted(zip(price, (row["kernel"] for row in rows)))[-2:]
    return "the most: " + ", ".join(f"{times:.1f} for {kernel}" for times, kernel in reversed(last))


def _milliseconds(told: Mapping[str, Any], kind: str) -> str:
    if "error" in told:
        return "-"
    wrong = "" if told["verdict"] == "right" else " (other numbers)"
    return f"{1e3 * told[kind]:.3g}{wrong}"


def _machine() -> str:
    import numpy as np
    from report import machine

    return f"{machine().removesuffix('; CPU time')}, NumPy {np.__version__}"


def main() -> None:
    """Measure, and write the page."""
    from report import rewrite

    text = page(*measure())
    print(text if not rewrite(PAGE, text) else f"{PAGE.relative_to(ROOT)}: rewritten")


if __name__ == "__main__":
    serve(sys.argv[1]) if len(sys.argv) > 1 else main()
