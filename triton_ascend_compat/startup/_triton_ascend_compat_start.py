"""What the start-up files of triton_ascend_compat call. In a wheel, it lies beside the package, not in it: so
an interpreter without TRITON_PLUGIN never imports the package, and one that is broken or half removed costs a
line on stderr instead of the traceback that `site` prints.

`triton_ascend_compat.start` (PEP 829, Python 3.15 on) can only name a callable, so the look at the
environment is repeated here; in `triton_ascend_compat.pth` it comes first, before any import.
"""

#: Why the start-up of this process failed, in one line; empty where it did not.
failure = ""


def start() -> None:
    """Hand over to the package if TRITON_PLUGIN is set; raises nothing but Ctrl-C, and complains once.

    In a virtual environment `site` processes the start-up files twice.
    """
    global failure
    import os

    if failure or not os.environ.get("TRITON_PLUGIN"):
        return
    try:
        from triton_ascend_compat import startup

        complaint = startup.start()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        failure = type(error).__name__
        try:
            failure = " ".join(f"{failure}: {error}".split())
        except Exception:  # an error that cannot be printed
            pass
        complaint = f"not active, its start-up failed: {failure}"
    if complaint:
        _complain(complaint)


def _complain(text: str) -> None:
    """One line on stderr, lost where that is closed, full or something else: what a buffer could not get rid
    of, Python would try again at its end, and fail."""
    import os
    import sys

    try:
        os.write(sys.stderr.fileno(), f"triton_ascend_compat: {text}\n".encode(errors="backslashreplace"))
    except Exception:
        pass
