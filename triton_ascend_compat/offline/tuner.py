"""Keeps what a tuner decides offline, where nothing is timed, out of what it uses on a device."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from typing import Any, Callable

from triton_ascend_compat.offline.driver import compile_only

_MISSING = object()


class TunerKeeper:
    """Gives each tuner that runs offline a cache and a benchmark of its own, and puts back what it had."""

    def __init__(self, active: Callable[[], bool]) -> None:
        self._active = active
        self._lock = threading.Lock()
        self._kept: list[tuple[Any, dict[str, Any]]] = []
        self.tuned: dict[Any, set[str]] = {}
        """Kernel function -> the parameters that its configs set."""

    def wrap_run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`Autotuner.run`, on such a tuner."""

        @functools.wraps(original)
        def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            if self._active():
                self._adopt(tuner)
            return original(tuner, *args, **kwargs)

        return run

    def _adopt(self, tuner: Any) -> None:
        with self._lock:
            if any(kept is tuner for kept, _ in self._kept):
                return
            own = vars(tuner)
            self._kept.append((tuner, {name: own.get(name, _MISSING) for name in ("cache", "do_bench")}))
            tuner.cache = {}
            tuner.do_bench = compile_only
            self.tuned.setdefault(tuner.base_fn, set()).update(
                key for config in tuner.configs if isinstance(config.kwargs, Mapping) for key in config.kwargs
            )

    def release(self) -> None:
        """Give every tuner back what it had."""
        with self._lock:
            for tuner, before in self._kept:
                for name, value in before.items():
                    if value is _MISSING:
                        vars(tuner).pop(name, None)
                    else:
                        setattr(tuner, name, value)
            self._kept.clear()
            self.tuned.clear()
