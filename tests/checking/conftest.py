"""The fixtures of the offline tests."""

from tests.offline.conftest import nothing_stays_behind, own_folders

__all__ = ["nothing_stays_behind", "own_folders"]
