"""Operators of liger-kernel, fla-core and flag-gems with computed launches, against their references.

    python benchmarks/computed_operators.py [--page FILE]

Run it in the environment of `make corpus`. Each library runs in a process of its own; an operator that takes
more than `LIMIT` seconds, or stops, is told as that.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "computed-operators.md"
LIBRARIES = {"liger": "liger-kernel", "fla": "fla-core", "flag_gems": "flag-gems"}
LIMIT = 240

#: The largest difference that counts as equal, as a part of the reference's largest value.
EQUAL = 1e-3


def run_library(library: str, report: Path) -> None:
    """Run and compare every operator of a library; one that stops, stops alone. Appends a JSON line each."""
    import triton_ascend_compat
    from triton_ascend_compat.offline import offline, stand_ins

    triton_ascend_compat.enable()
    signal.signal(signal.SIGALRM, _out_of_time)
    with stand_ins.for_torch_npu(), offline():
        from corpus import comparisons

        for case in comparisons.cases(library):
            with offline(execute=True) as session:
                told = {"operator": case.name, **_compared(case)}
                assert session.executor is not None
                told["computed"] = session.executor.tally.computed
                refused = session.executor.tally.refused
                told["refused"] = sorted({f"{kernel}: {why}" for kernel, why in refused})
                failed = [record for record in session.records if not record.ok]
                told["not compiled"] = sorted({f"{record.kernel}: {record.error}" for record in failed})
            with report.open("a") as file:
                file.write(json.dumps(told) + "\n")


def _out_of_time(*_: Any) -> None:
    raise TimeoutError(f"more than {LIMIT} s")


def _compared(case: Any) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    inputs = case.inputs()
    signal.alarm(LIMIT)
    try:
        told = []
        for function in (case.reference, case.run):
            torch.manual_seed(1)
            told.append(_results(torch, function, inputs))
        (expected, gradients), (found, own_gradients) = told
        return {"forward": _worst(expected, found), "backward": _worst(gradients, own_gradients)}
    except Exception as error:
        return {"stopped": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    finally:
        signal.alarm(0)


def _results(torch: Any, function: Any, inputs: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """The outputs of a function and, where they depend on its inputs, the gradients by these."""
    mine = [
        x.clone().requires_grad_(x.is_floating_point()) if isinstance(x, torch.Tensor) else x for x in inputs
    ]
    result = function(*mine)
    outputs = [x for x in (result if isinstance(result, tuple) else (result,)) if isinstance(x, torch.Tensor)]
    kept = [x.detach().clone() for x in outputs]
    driven = [x for x in outputs if x.requires_grad]
    if driven:
        torch.autograd.backward(driven, [torch.randn(x.shape) for x in driven])
    return kept, [x.grad for x in mine if isinstance(x, torch.Tensor) and x.grad is not None]


def _worst(expected: list[Any], found: list[Any]) -> float | None:
    """The largest difference, as a part of the largest value expected; None where one side has nothing."""
    pairs = list(zip(expected, found))
    if not pairs:
        return None
    return max(
        float((a.double() - b.double()).abs().max()) / max(float(a.double().abs().max()), 1e-12)
        for a, b in pairs
    )


def page(told: dict[str, list[dict[str, Any]]]) -> str:
    """The page, in Markdown."""
    names = ("triton-ascend", "torch", *LIBRARIES.values())
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    lines = [
        "# Operators of public packages, computed",
        "",
        f"Written by `benchmarks/computed_operators.py`; do not edit. {versions}.",
        "",
        "The packages' own operators on fp32 CPU tensors, their launches computed in offline mode "
        "(`execute=True`, with guard zones), against references: FLA's own, the ATen operators for FlagGems, "
        "torch's functions for Liger, which publishes none. The figure is the largest difference, as a part "
        f"of the reference's largest value; up to {EQUAL:g} counts as equal.",
        "",
    ]
    for library, rows in told.items():
        equal = sum(_verdict(row) == "equal" for row in rows)
        lines += [
            f"## {LIBRARIES[library]}: {equal} of {len(rows)} equal",
            "",
            "| operator | launches | forward | backward | |",
            "|---|---|---|---|---|",
        ]
        for row in rows:
            numbers = " | ".join(
                "-" if row.get(way) is None else f"{row[way]:.1e}" for way in ("forward", "backward")
            )
            lines.append(f"| {row['operator']} | {row['computed']} | {numbers} | {_verdict(row)} |")
        lines.append("")
    return "\n".join(lines)


def _verdict(row: dict[str, Any]) -> str:
    for kind in ("not compiled", "refused"):
        if row[kind]:
            words = {"not compiled": "does not compile", "refused": "not executed"}[kind]
            return f"{words}: {'; '.join(row[kind])[:300]}".replace("|", "\\|").replace("<", "&lt;")
    if "stopped" in row:
        return f"stopped: {row['stopped']}".replace("|", "\\|").replace("<", "&lt;")
    if not row["computed"]:
        return "launched no kernel"
    return "equal" if max(row["forward"] or 0, row["backward"] or 0) <= EQUAL else "**differs**"


def main() -> None:
    """Run all and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--library", choices=LIBRARIES, action="append")
    parser.add_argument("--run", nargs=2, metavar=("LIBRARY", "REPORT"), help="one library, in this process")
    arguments = parser.parse_args()
    if arguments.run:
        run_library(arguments.run[0], Path(arguments.run[1]))
        return
    told = {}
    for library in arguments.library or LIBRARIES:
        with tempfile.TemporaryDirectory(prefix="computed-") as folder:
            report = Path(folder) / "report"
            env = {f"TRITON_{name}": f"{folder}/{name}" for name in ("CACHE_DIR", "DUMP_DIR", "HOME")}
            env |= {"FLAGGEMS_CACHE_DIR": f"{folder}/flaggems", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
            env["ASCEND_UB_CAPACITY_BITS"] = str(192 * 1024 * 8)  # Liger asks where no device tells it
            command = [sys.executable, __file__, "--run", library, str(report)]
            subprocess.run(command, env={**os.environ, **env}, check=False)
            told[library] = [json.loads(line) for line in report.read_text().splitlines()]
            print(library, [(row["operator"], _verdict(row)[:150]) for row in told[library]], flush=True)
    arguments.page.write_text(page(told), encoding="utf-8")


if __name__ == "__main__":
    main()
