"""What Envoy answers when it fails by itself, in the shape of the gateway's contract.

Mappers see every answer that no engine gave, so also those of routes and of ext_proc, which are right already:
those carry no response flag, and a mapper that matches by flag leaves them alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envoy.config.accesslog.v3 import accesslog_pb2 as filters
from envoy.config.core.v3 import base_pb2, substitution_format_string_pb2
from envoy.config.route.v3 import route_components_pb2 as components
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2 as hcm
from envoy.type.matcher.v3 import regex_pb2, string_pb2

from tidegate.domain.refusal import MESSAGES_PATH, SHAPES, Dialect, Refusal, http_answer
from tidegate.domain.wire import REASON_HEADER
from xds_server.resources import answers

FAULT_INJECTED = ("FI",)
BROKE_OFF = ("UC", "UR", "UPE", "LR")
NOBODY_THERE = ("UH", "UF", "URX", "UO", "NC", "NR", "UT")


def local_replies() -> Any:
    """The LocalReplyConfig. The first mapper that matches wins."""
    too_large = answers.BODY_TOO_LARGE
    return hcm.LocalReplyConfig(
        mappers=[
            *_mappers(_flagged(FAULT_INJECTED), answers.EMPTY_BODY),
            *_mappers(_status(SHAPES[too_large.reason].status), too_large),
            *_mappers(_flagged(BROKE_OFF), answers.BROKE_OFF),
            *_mappers(_flagged(NOBODY_THERE), answers.NO_ENDPOINT),
            *_mappers(_flagged(()), answers.BAD_REQUEST),
        ]
    )


def _flagged(flags: Iterable[str]) -> Any:
    """Any of these response flags; of none given, any flag at all."""
    return filters.AccessLogFilter(response_flag_filter=filters.ResponseFlagFilter(flags=flags))


def _status(status: int) -> Any:
    comparison = filters.ComparisonFilter(
        op=filters.ComparisonFilter.EQ,
        value=base_pb2.RuntimeUInt32(default_value=status, runtime_key="tidegate.body_too_large"),
    )
    return filters.AccessLogFilter(status_code_filter=filters.StatusCodeFilter(comparison=comparison))


def _mappers(condition: Any, refusal: Refusal) -> list[Any]:
    """Anthropic's paths first, since the other mapper matches those too."""
    to_messages = filters.AccessLogFilter(and_filter=filters.AndFilter(filters=[condition, _on_messages_path()]))
    return [
        _mapper(to_messages, refusal, Dialect.ANTHROPIC),
        _mapper(condition, refusal, Dialect.OPENAI),
    ]


def _on_messages_path() -> Any:
    regex = regex_pb2.RegexMatcher(regex=rf"{MESSAGES_PATH}(?:\?.*)?")
    path = components.HeaderMatcher(name=":path", string_match=string_pb2.StringMatcher(safe_regex=regex))
    return filters.AccessLogFilter(header_filter=filters.HeaderFilter(header=path))


def _mapper(condition: Any, refusal: Refusal, dialect: Dialect) -> Any:
    """Envoy's status stays, body and headers are those of the refusal."""
    option, answer = base_pb2.HeaderValueOption, http_answer(refusal, dialect)
    reason = base_pb2.HeaderValue(key=REASON_HEADER, value=refusal.reason.value)
    return hcm.ResponseMapper(
        filter=condition,
        body_format_override=substitution_format_string_pb2.SubstitutionFormatString(
            text_format_source=base_pb2.DataSource(inline_string=answer.body.decode().replace("%", "%%")),
            content_type=answers.JSON_TYPE,
        ),
        headers_to_add=[option(header=reason, append_action=option.OVERWRITE_IF_EXISTS_OR_ADD)],
    )
