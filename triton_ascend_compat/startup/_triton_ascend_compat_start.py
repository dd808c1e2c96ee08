"""What the start-up files of triton_ascend_compat call. In a wheel it lies beside the package, so that one
that is broken costs a line on stderr instead of the traceback that `site` prints. (A `.start` file can only
name a callable, so the look at the environment is repeated here; in the `.pth` it comes before any import.)
"""

#: Why the start-up of this process failed, in one line; empty where it did not.
failure = ""


def start() -> None:
    """Hand over to the package if TRITON_PLUGIN is set; raises nothing but Ctrl-C, and complains once, though
    `site` may process the start-up files twice."""
    global failure
    import os
    import sys

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
        try:  # past the buffer: what a full device leaves in it makes Python fail at its end
            os.write(sys.stderr.fileno(), f"triton_ascend_compat: {complaint}\n".encode(errors="replace"))
        except Exception:  # stderr is closed, full or replaced
            pass
