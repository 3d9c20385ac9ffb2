"""Which engines serve https, and how they are trusted. Files that change are read again before the next page."""

from __future__ import annotations

import ssl
from pathlib import Path

import structlog

from metrics_agent.targets import Target
from tidegate.domain.errors import ConfigError
from tidegate.domain.topology import Topology
from tidegate.domain.upstream import UpstreamTls

Changed = tuple[int | None, ...]

log = structlog.get_logger("metrics_agent.scrape")


class EngineTls:
    """Contexts by the file's clusters. Raises ConfigError when a file that one of them names is wrong at the start."""

    def __init__(self, topology: Topology) -> None:
        self._clusters = {c.name: c.tls for c in topology.clusters if c.tls is not None}
        self._of: dict[str, UpstreamTls] = {}
        self._made = {tls: (_changed(tls), _context(tls)) for tls in self._clusters.values()}

    def watched(self, target: Target) -> None:
        """This engine is scraped from here on: by TLS where its cluster is."""
        if (tls := self._clusters.get(target.cluster)) is not None:
            self._of[target.address] = tls

    def of(self, address: str) -> tuple[ssl.SSLContext, str] | None:
        """How `host:port` is reached: context and the certificate's name; None is plain http."""
        tls = self._of.get(address)
        return None if tls is None else (self._context(tls), tls.name)

    def _context(self, tls: UpstreamTls) -> ssl.SSLContext:
        seen, context = self._made[tls]
        if (now := _changed(tls)) != seen:
            try:
                context = _context(tls)
            except ConfigError as exc:
                log.warning("new certificates are not taken; the last good ones stay", error=str(exc))
            self._made[tls] = (now, context)
        return context


def _changed(tls: UpstreamTls) -> Changed:
    return tuple(_mtime_ns(path) for path in (tls.ca, tls.cert, tls.key) if path is not None)


def _mtime_ns(path: str) -> int | None:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return None


def _context(tls: UpstreamTls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key)
    except OSError as exc:  # ssl.SSLError is one
        files = ", ".join(path for path in (tls.ca, tls.cert, tls.key) if path is not None)
        raise ConfigError([f"clusters[].tls: {files} cannot be used: {(exc.strerror or str(exc)).lower()}"]) from exc
    return context
