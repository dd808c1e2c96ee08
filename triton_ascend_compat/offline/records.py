"""What is known about one offline compile, as data."""

from __future__ import annotations

import dataclasses
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
class CompileRecord:
    """One compile in offline mode.

    Attributes:
        kernel: the kernel's name.
        location: `file:line` of the kernel, or None where it has no Python source.
        chip: the chip it was compiled for.
        hivm: whether bishengir-compile ran.
        signature: kernel parameter -> type, as Triton writes it ("*fp32", "i32").
        constexprs: the kernel's constexpr parameters and their values.
        asked: the compile options that the caller gave.
        delivered: those of them that are in the options the backend built, with the value there.
        config: constexprs and the options whose value is not the backend's default, for people to read.
        keys: keys that stood among the constants, and what the shim did with each.
        stages: the stages that ran, in order; none where the kernel came from the cache.
        milliseconds: wall time of the whole compile.
        tool_milliseconds: the part of it that external compilers took.
        cached: whether the kernel came from the offline cache.
        hash: Triton's hash of the kernel; None where the compile ended before it had one.
        error: what went wrong, in one line; None where nothing did.
        error_type: the exception's class name.
        error_location: `file:line` of the line in the kernel that is at fault, where the compiler names one.
        detail: the exception's whole text.
        overflow: set where the kernel does not fit into on-chip memory.
        notes: what a compiler did on its own and only mentioned on its stderr.
        ir: stage -> text, where the session keeps IR.
        fits: the largest config that fits, where `overflow` is set and it was looked for and found.
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
    detail: str | None = None
    overflow: Overflow | None = None
    notes: tuple[str, ...] = ()
    ir: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fits: Mapping[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """Whether the kernel compiled."""
        return self.error is None

    @property
    def dropped(self) -> tuple[str, ...]:
        """Options that were asked for and that the backend left out without a word."""
        told = {event.key for event in self.keys}
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
        return tuple(event for event in self.keys if event.outcome is outcome)

    def as_dict(self) -> dict[str, Any]:
        """For `json.dumps`: values that JSON has no form for become their `repr`."""
        data: dict[str, Any] = _plain(dataclasses.asdict(self))
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CompileRecord:
        """The inverse of `as_dict`, but for what had to become a `repr`."""
        values = dict(data)
        values["keys"] = tuple(
            Fate(**{**k, "outcome": Outcome(k["outcome"]), "where": Where(k["where"])})
            for k in values["keys"]
        )
        values["stages"] = tuple(StageTime(**stage) for stage in values["stages"])
        values["overflow"] = Overflow(**values["overflow"]) if values["overflow"] else None
        values["notes"] = tuple(values["notes"])
        return cls(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, (Outcome, Where)):
        return value.value
    if isinstance(value, Fate):
        return _plain(value._asdict())
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return repr(value)


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
    # Triton's own errors end with the message, below the excerpt of the kernel's source.
    return lines[-1] if lines else ""
