"""A stand-in for bishengir-compile: it answers as the real one does to what the offline mode needs of it.

A tensor of 32768 elements does not fit into on-chip memory; one of 16384 does on the second try only.
"""

from __future__ import annotations

import stat
from pathlib import Path

_SCRIPT = """#!/bin/sh
if [ "$1" = --help ]; then
  echo '  --limit-auto-multi-buffer-buffer=<value>'
  echo '  --target=<value>'
  echo '    =Ascend910B2'
  exit 0
fi
input=$1
echo "$@" >> "{log}"
note() {{ echo "[NOTE] Ub overflow detected; automatically set $1 to false and retrying compilation." >&2; }}
if grep -q 'tensor<32768xf32>' "$input"; then
  note enable-auto-multi-buffer
  echo 'loc("k.mlir":1:1): error: Failed to run BiShengHIR pipeline' >&2
  echo 'loc("k.mlir":2:3): error: ub overflow, requires 2097152 bits while 1572864 bits available!' >&2
  exit 1
fi
grep -q 'tensor<16384xf32>' "$input" && note enable-auto-multi-buffer
hivmc --version
while [ $# -gt 1 ]; do
  [ "$1" = -o ] && hivmc "$input" --flag -o "$2"
  shift
done
"""


def install(folder: Path) -> Path:
    """Write the stand-in into `folder`; returns the file to which it logs how it was called."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "calls.txt"
    tool = folder / "bishengir-compile"
    tool.write_text(_SCRIPT.format(log=log))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return log
