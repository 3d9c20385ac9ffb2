"""Leave for browsers: pages of one other origin, or of any, may call the gateway and read its answers."""

from __future__ import annotations

from typing import Any, Final

from envoy.config.common.mutation_rules.v3 import mutation_rules_pb2
from envoy.config.core.v3 import base_pb2
from envoy.extensions.filters.http.header_mutation.v3 import header_mutation_pb2

ANY_ORIGIN: Final = "*"
METHODS: Final = "GET, HEAD, POST, OPTIONS"
# A wildcard covers every header but this one (Fetch standard, "CORS non-wildcard request-header name").
ALLOWED_HEADERS: Final = "*, authorization"
MAX_AGE_SECONDS: Final = "600"


def share_with(origin: str) -> Any:
    """Headers on every answer, whoever gives it. Envoy's own cors filter passes over routes without a cluster."""
    shared = [("access-control-allow-origin", origin), ("access-control-expose-headers", "*")]
    add, option = mutation_rules_pb2.HeaderMutation, base_pb2.HeaderValueOption
    mutations = [add(append=_option(name, value, option.OVERWRITE_IF_EXISTS_OR_ADD)) for name, value in shared]
    if origin != ANY_ORIGIN:
        mutations.append(add(append=_option("vary", "origin", option.APPEND_IF_EXISTS_OR_ADD)))
    return header_mutation_pb2.HeaderMutation(mutations=header_mutation_pb2.Mutations(response_mutations=mutations))


def preflight_headers(origin: str | None) -> tuple[tuple[str, str], ...]:
    """What the answer to a preflight says; without an origin it gives no leave."""
    if origin is None:
        return (("allow", METHODS),)
    return (
        ("allow", METHODS),
        ("access-control-allow-methods", METHODS),
        ("access-control-allow-headers", ALLOWED_HEADERS),
        ("access-control-max-age", MAX_AGE_SECONDS),
    )


def _option(name: str, value: str, action: Any) -> Any:
    return base_pb2.HeaderValueOption(header=base_pb2.HeaderValue(key=name, value=value), append_action=action)
