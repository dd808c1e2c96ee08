"""Read the compile options of one triton-ascend release from its source into the catalogue; imports nothing.

    make catalogue TREE=../triton-ascend RELEASE=3.2.3 ARGS="--repository triton-lang/triton-ascend"

TREE is a git repository (read at HEAD, or --at COMMIT), a wheel, or a folder with either's files. Printed is
what is new, gone, renamed, dropped, and changed in type or default since the release before. What the head of
the data calls kept by hand stays; a new name has an empty `kind`, which the tests refuse until it is judged.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import subprocess
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

CATALOGUE = Path(__file__).parents[2] / "triton_ascend_compat" / "decision" / "catalogue.json"

#: Where a tree has the backend: main and 3.2.1 on, 3.2.0's checkout, an installed tree or wheel.
HOMES = ("third_party/ascend/backend/", "ascend/backend/", "triton/backends/ascend/")

#: Tables of the backend (compiler.py or utils.py) of names that it accepts, and drops or turns into others.
RETIRED = "_DEPRECATED_NPU_OPTIONS"
ROUTES = ("_DEPRECATED_NPU_OPTION_ROUTES", "_DEPRECATED_NPU_OPTION_ALIASES")

#: The keys of an option that a refresh writes; the others are kept by hand.
WRITTEN = ("type", "default", "types", "defaults", "states", "source")

Files = Callable[[str], Optional[bytes]]


class Fact(NamedTuple):
    """A name in one release, in the words of the data; `line` is that of compiler.py."""

    state: str
    type: str | None
    default: Any
    line: int = 0


class Release(NamedTuple):
    """What a tree tells: the files read with their SHA-256, facts by name, and what old names turn into."""

    path: str
    sha256: Mapping[str, str]
    facts: Mapping[str, Fact]
    renamed: Mapping[str, str]


def files_of(tree: Path, commit: str | None) -> Files:
    """A function from a path in `tree`, a git repository if `commit` is given, to the bytes there, if any."""
    if commit is not None:
        return lambda path: _git(tree, "show", f"{commit}:{path}")
    if tree.is_file():
        wheel = zipfile.ZipFile(tree)
        return lambda path: wheel.read(path) if path in wheel.namelist() else None
    return lambda path: (tree / path).read_bytes() if (tree / path).is_file() else None


def _git(tree: Path, *command: str) -> bytes | None:
    done = subprocess.run(["git", "-C", str(tree), *command], capture_output=True)
    return None if done.returncode else done.stdout


def read_release(files: Files) -> Release:
    """What a tree tells of its options; SystemExit where it has no NPUOptions."""
    home = next((home for home in HOMES if files(home + "compiler.py") is not None), None)
    if home is None:
        raise SystemExit(f"no compiler.py of the ascend backend here; looked in {', '.join(HOMES)}")
    texts = {name: files(home + name) or b"" for name in ("compiler.py", "utils.py")}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    classes = {node.name: node for node in trees["compiler.py"].body if isinstance(node, ast.ClassDef)}
    if "NPUOptions" not in classes:
        raise SystemExit(f"{home}compiler.py defines no class NPUOptions")
    tables = {key: value for tree in trees.values() for key, value in _tables(tree.body)}
    renamed = {old: str(new) for table in ROUTES for old, new in tables.get(table, {}).items()}
    written = _strings_given(trees["compiler.py"], "__setattr__", 1)
    dropped = {*tables.get(RETIRED, ()), *renamed}
    dropped |= _strings_given(trees["compiler.py"], "_warn_deprecated_npu_option", 0)
    facts = {name: Fact("ignored", None, None) for name in dropped}
    for name, fact in _fields(classes["NPUOptions"]):
        # A field that neither a caller nor the backend sets is there for those who look names up.
        kept = fact.state == "derived" and name not in written
        facts[name] = fact._replace(state="ignored") if name in dropped or kept else fact
    hashes = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items() if text}
    return Release(home + "compiler.py", hashes, facts, renamed)


def _fields(options: ast.ClassDef) -> Iterator[tuple[str, Fact]]:
    for node in options.body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        annotation, value, state = node.annotation, node.value, "option"
        if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith("InitVar"):
            annotation, state = annotation.slice, "initvar"
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("field"):
            given = {keyword.arg: keyword.value for keyword in value.keywords}
            if "init" in given and not ast.literal_eval(given["init"]):
                state = "derived"
            value = given.get("default", given.get("default_factory"))
        if not node.target.id.startswith("_") and "ClassVar" not in ast.unparse(annotation):
            yield (
                node.target.id,
                Fact(state, ast.unparse(annotation), _value(value or ast.Constant(None)), node.lineno),
            )


def _value(node: ast.expr) -> Any:
    try:
        return json.loads(json.dumps(ast.literal_eval(node)))
    except (ValueError, TypeError):
        return {"expression": ast.unparse(node)}


def _tables(body: Iterable[ast.stmt]) -> Iterator[tuple[str, Any]]:
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
            if name in (RETIRED, *ROUTES):  # frozenset({...}), or the literal itself
                yield name, ast.literal_eval(value.args[0] if isinstance(value, ast.Call) else value)


def _strings_given(tree: ast.AST, function: str, position: int) -> set[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > position]
    given = [node.args[position] for node in calls if ast.unparse(node.func).split(".")[-1] == function]
    return {str(node.value) for node in given if isinstance(node, ast.Constant)}


def facts_in(data: Mapping[str, Any], release: str) -> dict[str, Fact]:
    """What the data say of `release`, by name."""
    found = {}
    for name, entry in data["options"].items():
        own = {key: value for key in WRITTEN[2:4] for value, there in entry.get(key, ()) if release in there}
        for state in (state for state, releases in entry["states"].items() if release in releases):
            found[name] = Fact(state, own.get("types", entry["type"]), own.get("defaults", entry["default"]))
    return found


def refreshed(data: dict[str, Any], release: Release, source: dict[str, Any]) -> dict[str, Any]:
    """`data` with what `release` tells, under the entry `source`; all else stays."""
    name = source["release"]
    entries = {entry["release"]: entry for entry in data["sources"]}
    entries[name] = {**entries.get(name, {}), **source}
    sources = sorted(entries.values(), key=lambda entry: (entry["release"].startswith("main"), entry["date"]))
    history = {entry["release"]: facts_in(data, entry["release"]) for entry in sources}
    history[name] = dict(release.facts)
    commit = f"@{source['commit'][:12]}" if source["commit"] else ""
    options = {}
    for option in sorted({option for facts in history.values() for option in facts}):
        seen = {there: facts[option] for there, facts in history.items() if option in facts}
        entry = data["options"].get(option, {"kind": ""})
        options[option] = _entry(entry, seen, name, f"{source['repository']}{commit} {release.path}")
    return {**data, "sources": sources, "options": options}


def _entry(old: Mapping[str, Any], seen: Mapping[str, Fact], release: str, file: str) -> dict[str, Any]:
    """One option's entry: what its releases tell, then what is kept by hand."""
    # A name that is merely accepted says nothing of the option that it was.
    live = {there: fact for there, fact in seen.items() if fact.state != "ignored"} or seen
    newest = [*live][-1]
    by_hand = {key: value for key, value in old.items() if key not in WRITTEN}
    source = f"{file}:{live[newest].line}" if newest == release else old["source"]
    groups = {"types": _grouped(live, "type"), "defaults": _grouped(live, "default")}
    several = {key: values for key, values in groups.items() if len(values) > 1}
    head = {"type": live[newest].type, "default": live[newest].default, **several}
    return {**head, "kind": "", "states": dict(_grouped(seen, "state")), "source": source, **by_hand}


def _grouped(facts: Mapping[str, Fact], key: str) -> list[list[Any]]:
    groups: dict[str, list[Any]] = {}
    for release, fact in facts.items():
        value = getattr(fact, key)
        groups.setdefault(json.dumps(value), [value, []])[1].append(release)
    return [*groups.values()]


def changes(before: Mapping[str, Fact], after: Mapping[str, Fact], renamed: Mapping[str, str]) -> list[str]:
    """What a maintainer wants to know of a release, given the facts of the one before; one line each."""
    lines = [f"renamed: {old} -> {new}" for old, new in sorted(renamed.items())]
    lines += [f"gone: {name}" for name in sorted(before.keys() - after.keys())]
    for name, now in sorted(after.items()):
        was = before.get(name)
        if was is None:
            lines.append(f"new: {name}: {now.type} = {now.default!r} ({now.state})")
            continue
        # What is merely accepted is there for its name's sake.
        for key in ("state", "type", "default") if now.state != "ignored" else ("state",):
            if getattr(was, key) != getattr(now, key):
                lines.append(f"{key}: {name}: {getattr(was, key)!r} -> {getattr(now, key)!r}")
    return lines


def written(data: Mapping[str, Any]) -> str:
    """The text of the data: one source and one option a line, so that a refresh reads well as a diff."""
    lines = [f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in data["options"].items()]
    about, sources = (",\n  ".join(map(json.dumps, data[key])) for key in ("about", "sources"))
    lists = f' "about": [\n  {about}\n ],\n "sources": [\n  {sources}\n ],'
    return "{\n" + lists + '\n "options": {\n  ' + ",\n  ".join(lines) + "\n }\n}\n"


def _read(given: argparse.Namespace, known: Mapping[str, Any]) -> tuple[Release, dict[str, Any]]:
    """What TREE tells, and its entry in `sources`; `known` is the present one."""
    commit, date = None, given.date
    if given.at or (given.tree / ".git").exists():
        shown = _git(given.tree, "show", "-s", "--format=%H %cs", given.at or "HEAD")
        if shown is None:
            raise SystemExit(f"{given.tree} is no git repository that has {given.at or 'a commit'}")
        commit, date = shown.decode().split()
    release = read_release(files_of(given.tree, commit))
    if commit is None and known.get("sha256") == release.sha256:
        commit, date = known["commit"], known["date"]
    if date is None:
        raise SystemExit("no date can be read from here: say --date YYYY-MM-DD")
    read = {"path": release.path, "names": len(release.facts), "sha256": release.sha256}
    repository = given.repository or known.get("repository", given.tree.name)
    entry = {"release": given.release, "repository": repository, "commit": commit, "date": date}
    return release, {**entry, **read}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tree", type=Path, help="a git repository, a wheel, or a folder")
    parser.add_argument("--release", required=True, help='its name in messages: 3.2.2, "main (2026-08)"')
    parser.add_argument("--at", metavar="COMMIT", help="read this commit of the repository TREE")
    parser.add_argument("--repository", help="OWNER/NAME that TREE is a copy of; default: its name")
    parser.add_argument("--date", metavar="YYYY-MM-DD", help="needed where git cannot tell")
    given = parser.parse_args(arguments)
    data = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    known = {entry["release"]: entry for entry in data["sources"]}
    release, source = _read(given, known.get(given.release, {}))
    data = refreshed(data, release, source)
    of_main = given.release.startswith("main")
    line = [entry["release"] for entry in data["sources"] if entry["release"].startswith("main") == of_main]
    before = line[max(line.index(given.release) - 1, 0)]
    print(f"{given.release}: {len(release.facts)} names; since {before}:")
    print(*changes(facts_in(data, before), release.facts, release.renamed), sep="\n")
    print(*(f"to judge: {name}" for name, entry in data["options"].items() if not entry["kind"]), sep="\n")
    CATALOGUE.write_text(written(data), encoding="utf-8")


if __name__ == "__main__":
    main()
