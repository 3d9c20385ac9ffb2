"""The access log: Envoy tells the outcomes service how each request ended, once, at its end, in batches.

It costs the response path no message. What cannot be sent is lost: a batch is at most BATCH_BYTES, goes with the stream
that was opened for it, and a stream that does not drain takes no further one.
"""

from __future__ import annotations

from typing import Any, Final

from envoy.config.accesslog.v3 import accesslog_pb2
from envoy.config.core.v3 import config_source_pb2, grpc_service_pb2
from envoy.extensions.access_loggers.grpc.v3 import als_pb2
from envoy.type.tracing.v3 import custom_tag_pb2

from tidegate.domain.wire import ACCESS_LOG_NAME, REPLICA_TAG
from xds_server.resources.names import OUTCOMES_CLUSTER
from xds_server.resources.wrap import UInt32, packed, seconds

FLUSH_SECONDS: Final = 0.5
BATCH_BYTES: Final = 64 << 10


def grpc_access_log() -> Any:
    """The AccessLog. An entry has the dynamic metadata of its request by itself; a tag adds the replica's address."""
    service = grpc_service_pb2.GrpcService.EnvoyGrpc(cluster_name=OUTCOMES_CLUSTER)
    common = als_pb2.CommonGrpcAccessLogConfig(
        log_name=ACCESS_LOG_NAME,
        grpc_service=grpc_service_pb2.GrpcService(envoy_grpc=service),
        transport_api_version=config_source_pb2.V3,
        buffer_flush_interval=seconds(FLUSH_SECONDS),
        buffer_size_bytes=UInt32(value=BATCH_BYTES),
        custom_tags=[custom_tag_pb2.CustomTag(tag=REPLICA_TAG, value="%UPSTREAM_HOST_NAME%")],
    )
    return accesslog_pb2.AccessLog(
        name="envoy.access_loggers.http_grpc",
        typed_config=packed(als_pb2.HttpGrpcAccessLogConfig(common_config=common)),
    )
