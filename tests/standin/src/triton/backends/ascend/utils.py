"""Stand-in: the set of retired options, kept where the backend of autumn 2026 keeps it."""

# A part of the names that the backend of autumn 2026 accepts, warns about and drops.
_DEPRECATED_NPU_OPTIONS = frozenset(
    {"arch", "auto_blockify_size", "compile_on_910_95", "enable_linearize", "parallel_mode"}
)
