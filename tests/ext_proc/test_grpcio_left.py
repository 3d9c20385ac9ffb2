"""A client of `grpcio` that leaves in the moment in which it is answered."""

from __future__ import annotations

from typing import Any

import pytest
from grpc import StatusCode, aio

from ext_proc.transport.grpcio import _Streams
from tests.ext_proc.parts import Picker, body_message


class Left:
    """A call as gRPC shows it just after a reset: a write fails, and `cancelled` does not say so yet."""

    aborted: StatusCode | None = None

    async def read(self) -> bytes:
        return body_message(b'{"model": "phi-3"}')

    async def write(self, _: bytes) -> None:
        raise aio.InternalError("a batch failed")

    def cancelled(self) -> bool:
        return False

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, status: StatusCode, _: str) -> None:
        self.aborted = status
        raise aio.AbortError


async def test_a_client_that_left_is_no_crash_and_no_clean_end() -> None:
    picker, call = Picker(), Left()
    streams: Any = _Streams(picker.session, picker.metrics, None)
    with pytest.raises(aio.AbortError):
        await streams.process(None, call)
    assert call.aborted is StatusCode.INTERNAL
    assert picker.registry.get_sample_value("tidegate_ext_proc_failures_total", {"kind": "crash"}) == 0
    assert picker.metrics.open_streams == 0
