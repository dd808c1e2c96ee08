"""Stand-in for the Ascend backend: see tests/standin/README.md. Compiles nothing for an NPU."""
