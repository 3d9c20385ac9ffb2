"""Which requests a route of the gateway's own is for."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from envoy.config.route.v3 import route_components_pb2 as components
from envoy.type.matcher.v3 import regex_pb2, string_pb2

MODELS_PATH: Final = "(?:/+v1)?/+models/*"
RESPONSES_PATH: Final = "(?:/+v1)?/+responses/+[^/]+"
MODEL_PATHS: Final = (
    "(?:/+v1)?(?:/+chat)?/+completions(?:/+batch)?/*",
    "(?:/+v1)?/+(?:embeddings|responses|pooling|classify)/*",
    r"(?:/+v\d)?/+(?:rerank|score|generate)/*",
    "/+(?:tokenize|detokenize)/*",
    "(?:/+v1)?/+(?:images|audio)/.*",
)
"""Endpoints of models, which are called by POST alone. Envoy takes no program of RE2 of more than 100 steps."""

_SAFE: Final = ("", "/", "!'()*", "!$&'()*+,;=:@", "/!$&'()*+,;=:@")
"""What clients leave unescaped in a path: nothing, what JavaScript leaves, and what RFC 3986 allows."""


def method(pattern: str, **match: Any) -> Any:
    """Requests whose method matches the pattern whole, such as `GET|HEAD`."""
    named = string_pb2.StringMatcher(safe_regex=regex(pattern))
    return components.RouteMatch(headers=[components.HeaderMatcher(name=":method", string_match=named)], **match)


def path(pattern: str) -> dict[str, Any]:
    """The path without its query matches the pattern whole."""
    return {"safe_regex": regex(pattern)}


def regex(pattern: str) -> Any:
    """RE2's."""
    return regex_pb2.RegexMatcher(regex=pattern)


def model_paths(name: str) -> list[str]:
    """The ways in which clients write `/v1/models/{name}`. A plain name has one, one with a slash three."""
    upper = [quote(name, safe=safe) for safe in _SAFE]
    return [f"/v1/models/{one}" for one in dict.fromkeys([*upper, *map(_lower_escapes, upper)])]


def _lower_escapes(escaped: str) -> str:
    first, *others = escaped.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in others)])
