"""Compiles for a cuda target without a GPU and prints what came of it as JSON. A script of the tests."""

from __future__ import annotations

import json
import os
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - a start-up script


def report(leaked: dict[str, object]) -> dict[str, object]:
    from support import CUDA, artefacts, compile_for

    try:
        kernel = compile_for(CUDA, {"BLOCK": 128, **leaked})
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        return {
            "type": type(error).__name__,
            "mro": [cls.__name__ for cls in type(error).__mro__],
            "text": str(error),
            "raised in": [frame.name for frame in frames if f"{os.sep}triton{os.sep}" in frame.filename],
        }
    hash_, texts, metadata = artefacts(kernel)
    return {"hash": hash_, "ir": texts, "metadata": str(metadata)}


def main() -> None:
    from triton.backends import backends

    import triton_ascend_compat

    found = {
        "clean": report({}),
        "known option": report({"multibuffer": False}),
        "absent option": report({"auto_blockify_size": 2}),
        "unknown key": report({"auto_blockfy_size": 2}),
        "several": report({"num_warps": 2, "auto_blockfy_size": 2}),
    }
    print(
        json.dumps(
            {
                "active": triton_ascend_compat.status().active,
                "npu backend": "ascend" in backends,
                "found": found,
            }
        )
    )


if __name__ == "__main__":
    main()
