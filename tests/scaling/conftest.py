"""The operator's desk of the CLI tests."""

from tests.cli.conftest import desk

__all__ = ["desk"]
