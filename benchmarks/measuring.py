"""Comparing two things on a noisy machine: they alternate, and the median of either side is what counts."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Timer = Callable[[], float]
"""Does its work once or many times over; returns seconds for one."""


@dataclass(frozen=True)
class Comparison:
    """Seconds for one run of either side, medians; all other figures are made of these two."""

    base: float
    other: float

    @property
    def ratio(self) -> float:
        return self.other / self.base

    @property
    def difference(self) -> float:
        return self.other - self.base


def compare(base: Timer, other: Timer, pairs: int) -> Comparison:
    """`other` against `base`, in `pairs` alternating pairs whose order alternates too; one more warms up."""
    return summary(alternate(base, other, pairs))


def alternate(base: Timer, other: Timer, pairs: int) -> list[tuple[float, float]]:
    """The timings behind `compare`: (base, other) for each pair."""
    base(), other()
    timings = []
    for number in range(pairs):
        if number % 2:
            second = other()
            timings.append((base(), second))
        else:
            timings.append((base(), other()))
    return timings


def summary(timings: list[tuple[float, float]]) -> Comparison:
    """The medians of either side of pairs of timings."""
    return Comparison(
        base=statistics.median(base for base, _ in timings),
        other=statistics.median(other for _, other in timings),
    )


def timed(work: Callable[[], object], times: int) -> Timer:
    """A timer that repeats `work`, after half as many untimed runs, with the garbage collector held off.

    It counts the thread's CPU time, so that what else runs on the machine hits neither side.
    """

    def timer() -> float:
        for _ in range(times // 2):
            work()
        gc.collect()
        gc.disable()
        try:
            start = time.thread_time()
            for _ in range(times):
                work()
            return (time.thread_time() - start) / times
        finally:
            gc.enable()

    return timer
