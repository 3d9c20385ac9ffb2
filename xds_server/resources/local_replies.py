"""What Envoy answers when it fails by itself, in the shape of the gateway's contract.

Mappers see every answer that no engine gave, so also those of routes and of ext_proc, which are right already:
those carry no response flag, and a mapper that matches by flag leaves them alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envoy.config.accesslog.v3 import accesslog_pb2 as filters
from envoy.config.core.v3 import base_pb2, substitution_format_string_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2 as hcm

from tidegate.domain.refusal import HttpAnswer
from tidegate.domain.wire import REASON_HEADER
from xds_server.resources import answers

FAULT_INJECTED = ("FI",)
BROKE_OFF = ("UC", "UR", "UPE", "LR")
NOBODY_THERE = ("UH", "UF", "URX", "UO", "NC", "NR", "UT")


def local_replies() -> Any:
    """The LocalReplyConfig. The first mapper that matches wins."""
    return hcm.LocalReplyConfig(
        mappers=[
            _mapper(_flagged(FAULT_INJECTED), answers.EMPTY_BODY),
            _mapper(_status(answers.BODY_TOO_LARGE.status), answers.BODY_TOO_LARGE),
            _mapper(_flagged(BROKE_OFF), answers.BROKE_OFF),
            _mapper(_flagged(NOBODY_THERE), answers.NO_ENDPOINT),
            _mapper(_flagged(()), answers.BAD_REQUEST),
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


def _mapper(condition: Any, answer: HttpAnswer) -> Any:
    """Envoy's status stays, body and headers are those of `answer`."""
    option = base_pb2.HeaderValueOption
    reason = base_pb2.HeaderValue(key=REASON_HEADER, value=dict(answer.headers)[REASON_HEADER])
    return hcm.ResponseMapper(
        filter=condition,
        body_format_override=substitution_format_string_pb2.SubstitutionFormatString(
            text_format_source=base_pb2.DataSource(inline_string=answer.body.decode().replace("%", "%%")),
            content_type=answers.JSON_TYPE,
        ),
        headers_to_add=[option(header=reason, append_action=option.OVERWRITE_IF_EXISTS_OR_ADD)],
    )
