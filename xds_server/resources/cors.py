"""Leave for browsers: which pages of other origins may call the gateway."""

from __future__ import annotations

from typing import Any, Final

from envoy.extensions.filters.http.cors.v3 import cors_pb2
from envoy.type.matcher.v3 import string_pb2

from xds_server.resources.answers import METHODS
from xds_server.resources.matches import regex
from xds_server.resources.names import CORS_FILTER
from xds_server.resources.wrap import packed

# A wildcard covers every header but this one (Fetch standard, "CORS non-wildcard request-header name").
ALLOWED_HEADERS: Final = "*, authorization"
MAX_AGE_SECONDS: Final = "600"


def allow_origins(host: Any, origins: tuple[str, ...]) -> None:
    """Give the virtual host the policy of these origins; none gives none."""
    if not origins:
        return
    policy = cors_pb2.CorsPolicy(
        allow_origin_string_match=[_matcher(origin) for origin in origins],
        allow_methods=METHODS,
        allow_headers=ALLOWED_HEADERS,
        expose_headers="*",
        max_age=MAX_AGE_SECONDS,
    )
    host.typed_per_filter_config[CORS_FILTER].CopyFrom(packed(policy))


def _matcher(origin: str) -> Any:
    everyone = origin == "*"
    return string_pb2.StringMatcher(safe_regex=regex(".*")) if everyone else string_pb2.StringMatcher(exact=origin)
