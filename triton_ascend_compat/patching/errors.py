"""The one error of this package: something is not as it must be, and nothing was changed."""

from __future__ import annotations


class PatchError(Exception):
    """Refused. The message is one line that says what is wrong; the installation is as it was."""
