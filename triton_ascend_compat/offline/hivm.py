"""The HIVM stage: the real bishengir-compile, without the code generator of CANN that it ends in.

The backend builds its own command line and calls bishengir-compile from PATH. That ends in `hivmc` (for A5
chips `hivmc-a5`), which only CANN has: a stand-in takes its place and hands its input, the final HIVM
module, back as the "binary".
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import math
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

from triton_ascend_compat.offline.records import Memory

TOOL = "bishengir-compile"

#: `hivmc INPUT … -o OUTPUT` writes OUTPUT.o. bishengir-compile also asks for its version first.
_STAND_IN_HIVMC = """#!/bin/sh
# Stand-in for CANN's hivmc: the HIVM module that it was given, as the binary.
[ "$1" = --version ] && exit 0
input=$1
while [ $# -gt 1 ]; do
  [ "$1" = -o ] && cp "$input" "$2.o"
  shift
done
"""

#: How bishengir-compile 1.2.0 says on its stderr, and nowhere else, that it compiled something else than
#: asked: "[NOTE] Ub overflow detected; automatically set enable-auto-multi-buffer to false and retrying …"
_RETRY = re.compile(r"\[NOTE\] (\w+) overflow detected; automatically set (\S+) to (\S+) and retrying")


#: How to get the tools: what the extra `hivm` in pyproject.toml asks for, from any index.
INSTALL = "pip install 'ascendnpu-ir>=1.2.0'"


class HivmUnavailable(RuntimeError):
    """There is no bishengir-compile, or it does not know the chip."""


def find_tools() -> Path:
    """The folder that holds bishengir-compile: that of the package ascendnpu-ir, else the one on PATH.

    Raises:
        HivmUnavailable: there is none.
    """
    spec = importlib.util.find_spec("ascendnpuir")
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(location) / "bin" / TOOL).is_file():
            return Path(location) / "bin"
    on_path = shutil.which(TOOL)
    if on_path is not None:
        return Path(on_path).parent
    raise HivmUnavailable(
        f"the HIVM stage needs {TOOL}, which is neither in the package ascendnpu-ir nor on PATH; "
        f"install it with: {INSTALL}"
    )


def tool_version(tools: Path) -> str:
    """What distinguishes this bishengir-compile from another one in a cache key."""
    if tools.parent.name == "ascendnpuir":
        try:
            return importlib.metadata.version("ascendnpu-ir")
        except importlib.metadata.PackageNotFoundError:
            pass
    status = (tools / TOOL).stat()
    return f"{status.st_size}-{status.st_mtime_ns}"


def check_chip(tools: Path, chip: str) -> None:
    """Raise `HivmUnavailable` if bishengir-compile in `tools` does not know `chip`."""
    if chip not in targets(tools):
        raise HivmUnavailable(f"{tools / TOOL} has no target {chip}: no HIVM stage for that chip")


@functools.cache
def targets(tools: Path) -> frozenset[str]:
    """The chips that bishengir-compile in `tools` knows."""
    try:
        shown = subprocess.run([tools / TOOL, "--help"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise HivmUnavailable(f"{tools / TOOL} does not run: {error}") from error
    return frozenset(re.findall(r"=(Ascend[\w-]+)", shown.stdout))


def write_stand_ins(folder: Path) -> None:
    """Put the stand-ins for hivmc into `folder`."""
    for name in ("hivmc", "hivmc-a5"):
        script = folder / name
        script.write_text(_STAND_IN_HIVMC)
        script.chmod(stat.S_IRWXU)


def search_path(stand_ins: Path, tools: Path, before: str) -> str:
    """A PATH that finds the stand-ins and the tools before what `before` finds."""
    return os.pathsep.join([str(stand_ins), str(tools), before])


#: In the final HIVM module: the size of each on-chip memory in bits; a constant; a buffer at an address.
_SIZE = re.compile(r'"(UB|L1|L0C)_SIZE", (\d+) :')
_CONSTANT = re.compile(r"(%\w+) = arith\.constant (\d+) : i64")
_BUFFER = re.compile(r"pointer_cast\((%\w+)\).* : memref<((?:\d+x)+)\w*?(\d+), .*address_space<(ub|cbuf|cc)>")
_MEMORIES = {"ub": "UB", "cbuf": "L1", "cc": "L0C"}


def memory_in(module: str) -> tuple[Memory, ...]:
    """How much of each on-chip memory a kernel uses, as its final HIVM module tells: up to the end of its
    last buffer. Nothing where it tells of no buffer."""
    constants = dict(_CONSTANT.findall(module))
    used: dict[str, int] = {}
    for address, shape, bits, space in _BUFFER.findall(module):
        size = math.prod(map(int, shape.split("x")[:-1])) * int(bits) // 8
        memory = _MEMORIES[space]
        used[memory] = max(used.get(memory, 0), int(constants.get(address, 0)) + size)
    return tuple(
        Memory(memory, used[memory], int(bits) // 8)
        for memory, bits in _SIZE.findall(module)
        if memory in used
    )


def notes_in(stderr: str) -> list[str]:
    """What the compiler changed on its own, one sentence each."""
    return [
        f"{memory.upper()} overflow: compiled again with {option}={value}"
        for memory, option, value in _RETRY.findall(stderr)
    ]
