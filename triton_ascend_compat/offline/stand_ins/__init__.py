"""Stand-ins for what code written for an NPU imports, and what only an Ascend machine or another release has.

`language` gives `triton.language.extra` both names that its Ascend part has had; every offline session has it.
`for_torch_npu` lets `import torch_npu` and the device "npu" work without torch_npu; the pytest plugin
(`--ascend-offline`) and `check` use it.
"""

from __future__ import annotations

from triton_ascend_compat.offline.stand_ins.finding import for_torch_npu

__all__ = ["for_torch_npu"]
