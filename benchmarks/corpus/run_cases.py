"""`run_cases.py LIBRARY REPORT [injections | speed]`: run a library's operators in the open offline session.

REPORT is a JSON file for what only this process knows: why an operator stopped, and, on request, what
became of options injected into its kernels' constants, or how long its kernels take to compile.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

# Liger asks for the size of the unified buffer where no device tells it: 192 KiB, as on the chips A2.
os.environ.setdefault("ASCEND_UB_CAPACITY_BITS", str(192 * 1024 * 8))

sys.path.insert(0, str(Path(__file__).resolve().parent))

import injections
import speed

from triton_ascend_compat.offline import current_session

EXTRA = {"injections": injections.inject_into_all, "speed": speed.measure}


def main(library: str, report: str, *extras: str) -> None:
    """Run every operator; one that fails stops alone."""
    session = current_session()
    assert session is not None
    cases = importlib.import_module(library).cases()
    told: dict[str, Any] = {"operators": len(cases), "stopped": {}}
    for name, run in cases.items():
        before = len(session.records)
        try:
            run()
        except Exception as error:
            if all(record.ok for record in session.records[before:]):
                told["stopped"][name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    for extra in extras:
        told[extra] = EXTRA[extra](session)
    Path(report).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
