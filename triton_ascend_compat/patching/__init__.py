"""The patched install: puts the source patches of `patches/` into a triton-ascend, and takes them out.

`store` reads the patches, `hunks` applies them in memory, `files` reads and writes one file, `site` looks at
an installation, `transaction` changes its files all or nothing, `operations` is what the command line calls.
"""
