"""Generate stand-ins for the CANN libraries that torch_npu links to, so that it imports without CANN.

Every symbol that torch_npu's libraries leave undefined, and that neither torch nor the interpreter nor the
system has, becomes a function that returns 0 (or a block of zeros where C++ expects an object). Nothing of
CANN is in them and nothing can be computed with them. Needs a C compiler.

    python stub_cann.py FOLDER    # prints FOLDER, to be put on LD_LIBRARY_PATH
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

OBJECT_PREFIXES = ("_ZTV", "_ZTI", "_ZTS")  # vtables and type information: data, not functions


def package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"stub_cann: package {name} is not installed")
    return Path(spec.origin).parent


def _dynamic_symbols(library: Path) -> Iterator[tuple[str, bool, bool]]:
    """Name, is it defined here, is it tied to a version (then it is a system library's) of each symbol."""
    with library.open("rb") as stream:
        elf = ELFFile(stream)
        table = elf.get_section_by_name(".dynsym")
        versions = elf.get_section_by_name(".gnu.version")
        assert isinstance(table, SymbolTableSection)
        for index, symbol in enumerate(table.iter_symbols()):
            versioned = isinstance(versions, GNUVerSymSection) and versions.get_symbol(index)["ndx"] not in (
                "VER_NDX_LOCAL",
                "VER_NDX_GLOBAL",
            )
            yield symbol.name, symbol["st_shndx"] != "SHN_UNDEF", versioned


def _needed(library: Path) -> set[str]:
    with library.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".dynamic")
        assert isinstance(section, DynamicSection)
        return {tag.needed for tag in section.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}


def _is_found(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def missing(users: Iterable[Path], providers: Iterable[Path]) -> tuple[set[str], set[str]]:
    """Return the library names and the symbols that `users` need and nobody here has."""
    users = list(users)
    provided = list(providers)
    present = {path.name for path in [*users, *provided]}
    libraries = {
        name for user in users for name in _needed(user) if name not in present and not _is_found(name)
    }
    undefined: set[str] = set()
    defined: set[str] = set()
    for user in users:
        for name, is_defined, versioned in _dynamic_symbols(user):
            if is_defined:
                defined.add(name)
            elif name and not versioned:
                undefined.add(name)
    for provider in provided:
        defined.update(name for name, is_defined, _ in _dynamic_symbols(provider) if is_defined)
    interpreter = ctypes.CDLL(None)
    return libraries, {name for name in undefined - defined if not hasattr(interpreter, name)}


def generate(folder: Path) -> None:
    """Write the stand-in libraries into `folder`.

    Raises SystemExit with one line when torch or torch_npu is absent or the compiler fails.
    """
    torch_npu, torch = package_folder("torch_npu"), package_folder("torch")
    users = [*sorted((torch_npu / "lib").glob("*.so")), *sorted(torch_npu.glob("_C*.so"))]
    libraries, symbols = missing(users, sorted((torch / "lib").glob("*.so*")))
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "stub.c"
    source.write_text(
        "\n".join(
            f"char {name}[512];" if name.startswith(OBJECT_PREFIXES) else f"long {name}(void) {{ return 0; }}"
            for name in sorted(symbols)
        )
        + "\n"
    )
    empty = folder / "empty.c"
    empty.write_text("\n")
    compiler = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O0", "-w", "-fno-builtin"]
    for number, library in enumerate(sorted(libraries)):
        # One of them exports everything: the loader looks a symbol up in all libraries.
        code = source if number == 0 else empty
        try:
            subprocess.run([*compiler, "-o", folder / library, code], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"stub_cann: cannot build the stand-in {library}: {error}") from None
    source.unlink()
    empty.unlink()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: stub_cann.py FOLDER")
    generate(Path(sys.argv[1]))
    print(sys.argv[1])
