"""An option arrives by its old name on a new release and by its new name on an old one."""

from __future__ import annotations

from triton_ascend_compat import backend_options
from triton_ascend_compat.fixes.base import Fix, without_npu_backend

FIX = Fix(
    backend_options.RENAMES,
    why="triton-ascend renamed options in 2026 (renames.json); a kernel knows one name, a release the other",
    how="the decision translates by the table, unless the backend does so itself; where both names are given "
    "and differ, an error names both",
    upstream="https://github.com/triton-lang/triton-ascend/blob/8763c3161/third_party/ascend/backend/compiler.py",
    until="the kernels in use know the names of every triton-ascend in use",
    wrappings=backend_options.wrappings,
    unneeded=without_npu_backend,
)
