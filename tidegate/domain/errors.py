"""Every error Tidegate raises on purpose.

    TidegateError
    ├── ConfigError            the file or a flag is wrong: permanent, exit 2
    ├── StoreError
    │   ├── StoreUnavailable   Redis cannot be reached or does not answer: temporary, retried
    │   ├── StoreRefused       Redis refuses us (password, permission): retried slowly, said in a sentence
    │   └── NotLeading         a fenced write came from a controller that no longer leads: it stands by
    ├── BinaryNotFound         envoy or redis-server is not installed: permanent, exit 2
    ├── ProtocolViolation      a peer broke xDS or ext_proc: ends that stream
    └── Refusal                a request is answered instead of served; stands in refusal.py

Library exceptions never leave an adapter: they are raised from one of these.
"""

from __future__ import annotations


class TidegateError(Exception):
    """Root of the tree. Its text is one sentence that says what to do."""


class ConfigError(TidegateError):
    """The configuration file or a flag is wrong. `faults` holds one line per fault, each with its place."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class StoreError(TidegateError):
    """The store did not do what was asked."""


class StoreUnavailable(StoreError):  # noqa: N818 - a state, read as "the store is unavailable"
    """Redis cannot be reached or does not answer in time. Temporary: retry with backoff."""


class StoreRefused(StoreError):  # noqa: N818
    """Redis refuses the credentials or the command. An operator has to act; retry slowly."""


class NotLeading(StoreError):  # noqa: N818
    """The lease under which something was to be written is not the one in force. Nothing was written."""


class BinaryNotFound(TidegateError):  # noqa: N818
    """A program that Tidegate runs (envoy, redis-server) is not on this machine."""


class ProtocolViolation(TidegateError):  # noqa: N818
    """A peer broke the protocol; the stream ends."""
