"""Targets of `check`: running them in processes of their own, and reporting what they compiled."""

import os

#: The environment variable that asks a process to record what it compiles; see `child.settings`.
VARIABLE = "TRITON_ASCEND_CHECK_TARGET"

#: The folder of the `sitecustomize` that calls `child.start`.
CHILDREN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children")  # noqa: PTH100, PTH118, PTH120
