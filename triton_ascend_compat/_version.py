"""The one place that states the version of this package."""

__version__ = "0.1.0"
