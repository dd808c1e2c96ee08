"""The patches that this package carries: one folder per release line, a `series` file, DEP-3 headers.

The header names, for each file, the SHA-256 that the patch expects and the one that it gives, so a line and
its state can be told from the files alone. A line may know several versions of a file, each with its pair.
"""

from __future__ import annotations

import email.parser
import email.policy
import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from triton_ascend_compat.patching.errors import PatchError
from triton_ascend_compat.patching.hunks import apply_hunks

#: The line between a patch's header and its diff (DEP-3).
HEADER_END = "\n---\n"


@dataclass(frozen=True)
class Patch:
    """One patch file. `hashes` maps each path to its (expected, resulting) SHA-256 pairs."""

    name: str
    header: dict[str, str]
    hashes: dict[str, tuple[tuple[str, str], ...]]
    diff: PatchSet


@dataclass(frozen=True)
class ReleaseLine:
    """The patches for one line of triton-ascend releases, in the order of its `series` file."""

    name: str
    patches: tuple[Patch, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file that a patch of this line changes, relative to the folder that holds `triton`."""
        return tuple(dict.fromkeys(path for patch in self.patches for path in patch.hashes))

    def histories(self, path: str) -> list[list[str]]:
        """For each known version of `path`: its hash before the first patch and after each of them."""
        histories: list[list[str]] = []
        for earlier, patch in enumerate(self.patches):
            gives = dict(patch.hashes.get(path, ()))
            known = {history[-1] for history in histories}
            # A version that no earlier patch gives is a pristine one: earlier patches left it as it was.
            histories += [[before] * (earlier + 1) for before in gives if before not in known]
            for history in histories:
                history.append(gives.get(history[-1], history[-1]))
        return histories

    def patched(self, path: str, data: bytes) -> bytes:
        """The pristine `data` of `path` with all patches applied, each result checked against its hash."""
        for patch in self.patches:
            for diff in patch.diff:
                if diff.path == path:
                    gives = dict(patch.hashes[path]).get(sha256(data))
                    if gives is None:
                        raise PatchError(f"{path} is no version that {self.name}/{patch.name} knows")
                    data = apply_hunks(diff, data)
                    if sha256(data) != gives:
                        raise PatchError(f"{self.name}/{patch.name} does not give the promised {path}")
        return data


def sha256(data: bytes) -> str:
    """The SHA-256 of `data` in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def patches_folder() -> Path:
    """Where the patches are: inside an installed package, at the top of the repository in a checkout.

    Raises:
        PatchError: neither is there.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "patches", package.parent / "patches"):
        if (folder / "README.md").is_file():
            return folder
    raise PatchError("this installation of triton-ascend-compat carries no patches: install it again")


def release_lines(folder: Path | None = None) -> list[ReleaseLine]:
    """All release lines in `folder` (default: the patches that this package carries)."""
    root = patches_folder() if folder is None else folder
    return [read_line(series.parent) for series in sorted(root.glob("*/series"))]


def read_line(folder: Path) -> ReleaseLine:
    """The release line in `folder`. Comments (`#`) and empty lines of its `series` file are skipped."""
    entries = [entry.partition("#")[0].strip() for entry in (folder / "series").read_text().splitlines()]
    return ReleaseLine(folder.name, tuple(read_patch(folder / entry) for entry in entries if entry))


def read_patch(path: Path) -> Patch:
    """One patch file, checked: its header and its diff must name the same files, and only relative ones.

    Raises:
        PatchError: something in it is not as described in `patches/README.md`.
    """
    where = f"{path.parent.name}/{path.name}"
    text = path.read_bytes().decode()
    head, separator, body = text.partition(HEADER_END)
    if not separator:
        raise PatchError(f"{where}: no line '---' between header and diff")
    if "\r" in text:
        raise PatchError(f"{where}: has CRLF line ends (check your git settings)")
    fields = email.parser.HeaderParser(policy=email.policy.compat32).parsestr(head)
    hashes: dict[str, tuple[tuple[str, str], ...]] = {}
    expects, gives = ([line.split() for line in fields.get_all(name, [])] for name in ("Expects", "Gives"))
    if [entry[1:] for entry in expects] != [entry[1:] for entry in gives]:
        raise PatchError(f"{where}: the Expects and Gives lines do not name the same files in the same order")
    for (before, name), (after, _) in zip(expects, gives):
        hashes[name] = (*hashes.get(name, ()), (before, after))
    try:
        diff = PatchSet(body)
    except UnidiffParseError as error:
        raise PatchError(f"{where}: {error}") from None
    if [entry.path for entry in diff] != list(hashes):
        raise PatchError(f"{where}: the header and the diff do not name the same files in the same order")
    for name in hashes:
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or pure.parts[0] != "triton":
            raise PatchError(f"{where}: {name} is not a path inside the triton package")
    return Patch(path.name, dict(fields.items()), hashes, diff)
