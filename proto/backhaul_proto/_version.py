"""The version of the distribution, in one place for all three packages."""

__version__ = "0.1.0"
