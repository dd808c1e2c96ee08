"""Starts the shim in child processes whose site directories hold no start-up file of this package.

`run` puts this folder in front of PYTHONPATH there. `site` imports one `sitecustomize` only, so the one
that this shadows is run afterwards.
"""


def _start() -> None:
    try:
        from triton_ascend_compat import _startup

        _startup.start()
    except Exception as error:
        import sys

        if sys.stderr is not None:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"triton_ascend_compat: not active, its start-up failed: {what}", file=sys.stderr)


def _run_shadowed() -> None:
    import importlib
    import sys
    from pathlib import Path

    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    this = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if this is not None:
            sys.modules["sitecustomize"] = this


_start()
_run_shadowed()
