"""What both start-up files of triton_ascend_compat call. It stands beside the package, not in it, so that
an interpreter without TRITON_PLUGIN never imports the package, and a package that is broken or half
removed costs one line instead of the traceback that `site` prints.

`triton_ascend_compat.start` (PEP 829, Python 3.15 on) can only name a callable, so the look at the
environment is repeated here; in `triton_ascend_compat.pth` it comes first, before any import.
"""

_failed = False


def start() -> None:
    """Hand over to the package if TRITON_PLUGIN is set; never raises, and complains once.

    In a virtual environment `site` processes the start-up files twice.
    """
    global _failed
    import os

    if _failed or not os.environ.get("TRITON_PLUGIN"):
        return
    try:
        from triton_ascend_compat import _startup

        _startup.start()
    except Exception as error:
        import sys

        _failed = True
        if sys.stderr is not None:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"triton_ascend_compat: not active, its start-up failed: {what}", file=sys.stderr)
