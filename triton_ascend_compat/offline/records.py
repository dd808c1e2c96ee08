"""What is known about one offline compile, as data."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from triton_ascend_compat.decision.plan import Fate, Outcome, Where

_PLAIN = (str, int, float, bool, type(None))

#: What LLVM prints when a compiler crashes: "Stack dump:", then the command line, then addresses.
CRASH = "Stack dump:"
_CRASHED = re.compile(rf"{CRASH}\s*0\.\s*Program arguments: (\S+)")

#: As bishengir-compile 1.2.0 writes it: "ub overflow, requires 2097152 bits while 1572864 bits available!"
_OVERFLOW = re.compile(r"(\w+) overflow, requires (\d+) bits while (\d+) bits available")


@dataclass(frozen=True)
class StageTime:
    """One stage of the compile: its name as the backend calls it, and how long it took."""

    name: str
    milliseconds: float


@dataclass(frozen=True)
class Memory:
    """How much of an on-chip memory (UB, L1, L0C) a kernel uses, in bytes."""

    memory: str
    used: int
    available: int


@dataclass(frozen=True)
class Overflow:
    """A kernel that needs more on-chip memory than there is; sizes in bits, as the compiler states them."""

    memory: str
    needed: int
    available: int

    @classmethod
    def found_in(cls, text: str) -> Overflow | None:
        """The first overflow that the compiler's output reports."""
        match = _OVERFLOW.search(text)
        return cls(match[1].upper(), int(match[2]), int(match[3])) if match else None

    def __str__(self) -> str:
        return f"{self.memory} overflow: needs {self.needed} bits, {self.available} available"


@dataclass(frozen=True)
class ConfigKey:
    """A key that was left out of, or refused in, a `triton.Config` when that was made; `location` is the
    `file:line` of the call."""

    fate: Fate
    location: str | None

    def as_dict(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {"fate": _as_json(self.fate), "location": self.location}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ConfigKey:
        """The inverse of `as_dict`."""
        return cls(_fate(data["fate"]), data["location"])


@dataclass(frozen=True)
class CompileRecord:
    """One compile in offline mode, or a launch that was refused.

    Attributes:
        kernel: the kernel's name.
        location: `file:line` of the kernel, or None where it has no Python source.
        chip: the chip it was compiled for.
        hivm: whether bishengir-compile ran.
        signature: kernel parameter -> type, as Triton writes it ("*fp32", "i32").
        constexprs: the kernel's constexpr parameters and their values.
        asked: the compile options that the caller gave.
        delivered: the options that were asked for, wherever they stood, with the value that arrived.
        config: constexprs and the options whose value is not the backend's default, for people to read.
        keys: keys that were not where they belong, and what the shim did with each.
        stages: the stages that ran, in order; none where the kernel came from the cache.
        milliseconds: wall time of the whole compile.
        tool_milliseconds: the part of it that external compilers took.
        cached: whether the kernel came from the offline cache, or, for a candidate of a tuner, from memory.
        hash: Triton's hash of the kernel; None where the compile ended before it had one.
        error: what went wrong, in one line; None where nothing did.
        error_type: the exception's class name.
        error_location: `file:line` of the line in the kernel that is at fault, where the compiler names one.
        error_source: the text of that line.
        detail: the exception's whole text.
        overflow: set where the kernel does not fit into on-chip memory.
        notes: what a compiler did on its own and only mentioned on its stderr.
        ir: stage -> text, where the session keeps IR.
        fits: where `overflow` is set, what was tried and fits: the largest block sizes, or an option.
        specialization: kernel parameter -> what the kernel takes for granted: "== 1", "divisible by 16".
        memory: on-chip memory of a kernel that fits, where the HIVM stage ran and tells.
        refused_launch: whether this is a launch that the backend or the device would refuse.
        tuning: the same for all candidates of one run of a tuner; None outside of a tuner.
        config_number: the candidate's place among the tuner's configs, from 0; None where it has none.
        pid: the process that compiled.
        binary: SHA-256 of the final HIVM module; None where the HIVM stage did not run.
        awaited: whether some code may wait for its error, as far as the process that writes the record looks:
            one that `check` or a test has started.
    """

    kernel: str
    location: str | None
    chip: str
    hivm: bool
    signature: Mapping[str, str]
    constexprs: Mapping[str, Any]
    asked: Mapping[str, Any]
    delivered: Mapping[str, Any]
    config: Mapping[str, Any]
    keys: tuple[Fate, ...] = ()
    stages: tuple[StageTime, ...] = ()
    milliseconds: float = 0.0
    tool_milliseconds: float = 0.0
    cached: bool = False
    hash: str | None = None
    error: str | None = None
    error_type: str | None = None
    error_location: str | None = None
    error_source: str | None = None
    detail: str | None = None
    overflow: Overflow | None = None
    notes: tuple[str, ...] = ()
    ir: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fits: Mapping[str, Any] | None = None
    specialization: Mapping[str, str] = dataclasses.field(default_factory=dict)
    memory: tuple[Memory, ...] = ()
    refused_launch: bool = False
    tuning: str | None = None
    config_number: int | None = None
    pid: int = dataclasses.field(default_factory=os.getpid)
    binary: str | None = None
    awaited: bool = True

    @property
    def ok(self) -> bool:
        """Whether the kernel compiled."""
        return self.error is None

    @property
    def ruled_out(self) -> bool:
        """Whether it failed of what a tuner is there to skip: on-chip memory, or a `static_assert`."""
        return self.overflow is not None or self.error_type == "CompileTimeAssertionFailure"

    @property
    def dropped(self) -> tuple[str, ...]:
        """Options that were asked for and that the backend left out without a word."""
        if self.refused_launch:
            return ()
        told = {key.key for key in self.keys}
        return tuple(key for key in self.asked if key not in self.delivered and key not in told)

    @property
    def stage_reached(self) -> str:
        """The last stage that ended well; "cache" where none had to run, "-" where none did."""
        if self.cached:
            return "cache"
        ended = self.stages if self.ok else self.stages[:-1]
        return ended[-1].name if ended else "-"

    def keys_that_were(self, outcome: Outcome) -> tuple[Fate, ...]:
        """The keys with this outcome."""
        return tuple(key for key in self.keys if key.outcome is outcome)

    def as_dict(self) -> dict[str, Any]:
        """For `json.dumps`: values that JSON has no form for become their `repr`."""
        data: dict[str, Any] = _as_json(dataclasses.asdict(self))
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CompileRecord:
        """The inverse of `as_dict`, but for what had to become a `repr`."""
        values = dict(data)
        values["keys"] = tuple(map(_fate, values["keys"]))
        values["stages"] = tuple(StageTime(**stage) for stage in values["stages"])
        values["memory"] = tuple(Memory(**memory) for memory in values["memory"])
        values["overflow"] = Overflow(**values["overflow"]) if values["overflow"] else None
        values["notes"] = tuple(values["notes"])
        return cls(**values)


def _fate(data: Mapping[str, Any]) -> Fate:
    return Fate(**{**data, "where": Where(data["where"]), "outcome": Outcome(data["outcome"])})


def _as_json(value: Any) -> Any:
    if isinstance(value, (Outcome, Where)):
        return value.value
    if isinstance(value, Fate):
        return _as_json(value._asdict())
    if isinstance(value, _PLAIN) and (not isinstance(value, float) or math.isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    return repr(value)


def plain(value: Any) -> Any:
    """A value of a kernel or an option as data that JSON has a form for."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return getattr(value, "__name__", None) or str(value)


def one_line(text: str) -> str:
    """The line of a compile error's text that says what is wrong."""
    overflow = Overflow.found_in(text)
    if overflow is not None:
        return str(overflow)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "error:" in line and "Failed to run" not in line]
    if told:
        return told[0].partition("error:")[2].strip() or told[0]
    crash = _CRASHED.search(text)
    if crash is not None:
        return f"{crash[1].rpartition('/')[2]} crashed"
    # Triton's own errors end with the message, below the excerpt of the kernel's source; where there is no
    # message, the excerpt's last line, which a caret points at, is all that is known.
    while len(lines) > 1 and lines[-1] == "^":
        lines.pop()
    return lines[-1] if lines else ""


def error_line(error: BaseException, text: str) -> str:
    """What is wrong, in one line: an error in a function that the kernel calls is behind the kernel's own."""
    causes = [error]
    while causes[-1].__cause__ is not None and causes[-1].__cause__ not in causes:
        causes.append(causes[-1].__cause__)
    said = getattr(causes[-1], "error_message", None)  # Triton's own, without the excerpt of the source
    line = " ".join(str(said).split()) if said else one_line(str(causes[-1]) if len(causes) > 1 else text)
    name = type(causes[-1]).__name__
    if not line:
        return name
    return line if type(causes[-1]) is type(error) else f"{name}: {line}"
