"""What the kernels of this folder are written down as: arguments, and what they should leave behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

random = np.random.default_rng(7)


class BFloat16:
    """A bf16 array, which NumPy has no type for: its bits as a tensor-like argument of a launch."""

    dtype = "bfloat16"

    def __init__(self, values: np.ndarray) -> None:
        self.bits = to_bfloat16(values)
        self.__array_interface__ = self.bits.__array_interface__
        self.nbytes, self.size, self.base = self.bits.nbytes, self.bits.size, None

    @property
    def values(self) -> np.ndarray:
        return (self.bits.astype(np.uint32) << 16).view(np.float32)

    def copy(self) -> BFloat16:
        return BFloat16(self.values)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """The bits of fp32 values, rounded to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


@dataclass(frozen=True)
class Case:
    """A kernel, its grid, its arguments by name, and a function from these to the arrays expected after."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    expected: Callable[..., Mapping[str, Any]]
    tolerance: float = 1e-5
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.kernel.fn.__name__

    def fresh(self) -> dict[str, Any]:
        """The arguments, arrays copied."""
        return {
            name: value.copy() if hasattr(value, "copy") else value for name, value in self.arguments.items()
        }

    def wanted(self) -> dict[str, np.ndarray]:
        """The arrays expected, computed from copies so that nothing is compared with itself."""
        given = {name: _values(value) for name, value in self.fresh().items()}
        return {name: np.asarray(value) for name, value in self.expected(**given).items()}

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Assert that a launch left in `arguments` what it should."""
        for name, wanted in self.wanted().items():
            got = _values(arguments[name])
            if wanted.dtype.kind in "iub" and got.dtype.kind in "iub":
                np.testing.assert_array_equal(got, wanted, err_msg=f"{self}: {name}")
            else:
                np.testing.assert_allclose(
                    np.asarray(got, np.float64),
                    np.asarray(wanted, np.float64),
                    rtol=self.tolerance,
                    atol=self.tolerance,
                    err_msg=f"{self}: {name}",
                )


def _values(value: Any) -> Any:
    return value.values if isinstance(value, BFloat16) else value


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return random.standard_normal(shape).astype(dtype)


def positive(*shape: int) -> np.ndarray:
    return random.uniform(0.1, 3.0, shape).astype(np.float32)


def integers(*shape: int, low: int = -100, high: int = 100, dtype: Any = np.int32) -> np.ndarray:
    return random.integers(low, high, shape).astype(dtype)


def empty(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """An output: filled with something that no kernel leaves."""
    return np.full(shape, 77, dtype)
