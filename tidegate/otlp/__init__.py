"""Spans to an OpenTelemetry collector: the only place that imports the SDK.

`spans` queues them with the SDK's batch processor, `encoding` writes OTLP's protobuf messages, `sending` is gRPC or
HTTP. Imported only where an endpoint is given; `tidegate.tracing` is what services call.
"""
