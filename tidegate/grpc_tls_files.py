"""Certificates and keys in files: read, checked, and read again when they change. Knows nothing of gRPC.

A certificate manager replaces the files of a pair one after the other. Until both are there they do not fit together:
the last good ones stay, and only what is still wrong at the second look is said.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from tidegate.domain.errors import ConfigError

EVERY_SECONDS: Final = 1.0

log = structlog.get_logger("tidegate.tls")

Seen = tuple[tuple[int, int, int] | None, ...]
"""Inode, size and time of change of each file, None where there is none."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A pair, an authority, or both. `flag` begins the flags that name them: `--tls-` for `--tls-cert`.

    `authority` is what the flag of the authority is called: `client-ca` or `ca`.
    """

    flag: str
    cert: Path | None
    key: Path | None
    ca: Path | None
    authority: str = "ca"

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ConfigError([f"{self.flag}cert and {self.flag}key belong together: give both, or neither"])

    @property
    def paths(self) -> tuple[Path, ...]:
        """Those that there are."""
        return tuple(path for path in (self.cert, self.key, self.ca) if path is not None)

    def read(self) -> TlsMaterial:
        """The files' content, checked. Raises ConfigError with one sentence."""
        pair = None
        if self.cert is not None and self.key is not None:
            pair = _pair(f"{self.flag}cert {self.cert}", f"{self.flag}key {self.key}", self.cert, self.key)
        ca = None
        if self.ca is not None:
            ca = _authority(f"{self.flag}{self.authority} {self.ca}", self.ca)
        return TlsMaterial(pair, ca)


@dataclass(frozen=True, slots=True)
class CheckedPair:
    """PEM of a certificate with its chain and of the key that fits; `not_after_ms` is when the first of them ends."""

    chain: bytes
    key: bytes
    not_after_ms: int


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """What the files hold. `ca` is PEM of one or more authorities."""

    pair: CheckedPair | None
    ca: bytes | None


class TlsMetrics:
    """How long pairs last, and whether new ones are taken. `pair` is a name that the service gives."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.not_after = Gauge(
            "tidegate_tls_certificate_not_after_seconds",
            "Unix time at which the certificate in use, or one of its chain, ends",
            ["pair"],
            registry=registry,
        )
        self.reloads = Counter(
            "tidegate_tls_reloads", "Changes of the files that were taken", ["pair"], registry=registry
        )
        self.failures = Counter(
            "tidegate_tls_reload_failures",
            "Changes of the files that were not: the last good ones stay",
            ["pair"],
            registry=registry,
        )


class TlsWatch:
    """The material in use: `material` is another object after each change that was taken. Any thread may read it.

    Raises ConfigError where the files are wrong from the start.
    """

    def __init__(self, name: str, files: TlsFiles, metrics: TlsMetrics) -> None:
        self.name, self._files = name, files
        self._seen = self._wrong = self._said = _look(files)
        self.material = files.read()
        self._not_after, self._reloads = metrics.not_after.labels(name), metrics.reloads.labels(name)
        self._failures = metrics.failures.labels(name)
        self._show()

    @property
    def not_after_ms(self) -> int | None:
        """Unix milliseconds at which the pair in use ends."""
        return self.material.pair.not_after_ms if self.material.pair else None

    async def run(self) -> None:
        """Look every second until cancelled."""
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(EVERY_SECONDS)

    def look(self) -> None:
        """Take what changed since the last look, where it is good."""
        seen = _look(self._files)
        if seen == self._seen:
            return
        try:
            material = self._files.read()
        except ConfigError as exc:
            self._refuse(seen, str(exc))
            return
        if material != self.material:
            self.material = material
            self._reloads.inc()
            self._show()
            log.info("certificates changed", pair=self.name, not_after=_date(self.not_after_ms))
        self._seen = seen

    def _refuse(self, seen: Seen, why: str) -> None:
        """Say it when the same files are wrong twice, and then no more."""
        if seen == self._wrong and seen != self._said:
            self._said = seen
            self._failures.inc()
            log.error("new certificates are not taken; the last good ones stay", pair=self.name, error=why)
        self._wrong = seen

    def _show(self) -> None:
        if self.not_after_ms is not None:
            self._not_after.set(self.not_after_ms / 1000)


def _look(files: TlsFiles) -> Seen:
    return tuple(_stat(path) for path in files.paths)


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _bytes(where: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise ConfigError([f"{where} cannot be read: {(exc.strerror or str(exc)).lower()}"]) from exc


def _pair(cert_at: str, key_at: str, cert: Path, key: Path) -> CheckedPair:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - 0.1 s that plaintext does not pay

    chain, secret = _bytes(cert_at, cert), _bytes(key_at, key)
    found = _certificates(cert_at, chain)
    try:
        private = serialization.load_pem_private_key(secret, None)
    except (ValueError, TypeError) as exc:  # TypeError: it has a password
        raise ConfigError([f"{key_at} is no PEM file of a private key without a password"]) from exc
    if private.public_key() != found[0].public_key():
        raise ConfigError([f"{cert_at} and {key_at} do not fit together"])
    return CheckedPair(chain, secret, _still_good(cert_at, min(one.not_valid_after_utc for one in found)))


def _authority(where: str, path: Path) -> bytes:
    """One of several may have expired: bundles keep such for long."""
    content = _bytes(where, path)
    _still_good(where, max(one.not_valid_after_utc for one in _certificates(where, content)))
    return content


def _certificates(where: str, pem: bytes) -> list[Any]:
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as exc:
        raise ConfigError([f"{where} is no PEM file of certificates"]) from exc


def _still_good(where: str, ends: dt.datetime) -> int:
    """The end in Unix milliseconds."""
    if ends <= dt.datetime.now(dt.UTC):
        raise ConfigError([f"{where} has expired, at {ends:%Y-%m-%d %H:%M} UTC"])
    return int(ends.timestamp() * 1000)


def _date(at_ms: int | None) -> str | None:
    return None if at_ms is None else dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).isoformat()
