"""Why an operation did not do what was asked. Each message is one line that says what is wrong."""

from __future__ import annotations


class PatchError(Exception):
    """Refused, or failed and undone: the installation is as it was."""


class UnfinishedError(PatchError):
    """Failed, and could not be undone: some files are patched and others not, until a next run undoes it."""
