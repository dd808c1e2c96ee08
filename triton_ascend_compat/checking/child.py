"""The process in which `check` runs one target for one chip: it writes what happened as JSON lines.

`python -m triton_ascend_compat.checking.child SETTINGS`, with SETTINGS the JSON that `Job.command` makes.
Lines are written as things happen, so that what a target did before it failed, or died, is not lost.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

import triton_ascend_compat
from triton_ascend_compat.offline import CompileRecord, Session, offline


def main(settings: dict[str, Any]) -> None:
    """Run the target that `settings` names and write records and end to the file that it names."""
    with RecordFile(settings["records"]) as file:
        triton_ascend_compat.enable()
        with offline(
            settings["chip"], hivm=settings["hivm"], cache=settings["cache"], on_record=file.add
        ) as session:
            failure = _run(settings["kind"], settings["name"], settings["arguments"], session)
            file.end(session, failure)


class RecordFile:
    """A file of JSON lines. Several threads, and xdist workers, may append to the same one."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, record: CompileRecord) -> None:
        """Write a record."""
        self._write(record=record.as_dict())

    def end(self, session: Session, failure: str | None = None) -> None:
        """Write what is known at the end only: what fits in place of what did not, and why it failed."""
        for record in session.with_fits():
            if record.fits is not None:
                self._write(fits=dict(record.fits), of=record.hash)
        self._write(end={"failure": failure, "launches": session.launches})

    def _write(self, **line: Any) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")


def _run(kind: str, name: str, arguments: list[str], session: Session) -> str | None:
    """Run the target; returns what it failed of, in one line, unless a kernel that did not compile."""
    sys.argv = [name, *arguments]
    try:
        if kind == "script":
            sys.path.insert(0, str(Path(name).resolve().parent))
            runpy.run_path(name, run_name="__main__")
        else:
            sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` does
            runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return f"exited with {end.code!r}" if end.code not in (None, 0) else None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        traceback.print_exc()
        return None if _is_of_a_kernel(error, session.records) else _told(error, name, session)
    return None


def _is_of_a_kernel(error: BaseException, records: list[CompileRecord]) -> bool:
    text = str(error)
    return any(
        record.error is not None and (record.error in text or (record.detail or "") in text)
        for record in records
        if record.error_type == type(error).__name__
    )


def _told(error: BaseException, name: str, session: Session) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<")]
    own = [frame for frame in frames if frame.filename.endswith(Path(name).name)] or frames[1:]
    where = f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
    message = " ".join(str(error).split())[:300]
    hint = "; no launch was executed, so there are no results to compare" if session.launches else ""
    return f"{type(error).__name__}: {message}{where}{hint}"


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
