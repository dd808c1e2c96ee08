"""The patched install: puts the source patches of `patches/` into a triton-ascend, and takes them out.

`store` reads the patches, `hunks` applies them in memory, `site` looks at an installation, `transaction`
changes its files all or nothing, and `operations` is what the command line calls.
"""

from __future__ import annotations
