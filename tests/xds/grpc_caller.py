"""A process whose gRPC channel takes its configuration over xDS: one call and one line of output for a line of input.

GRPC_XDS_BOOTSTRAP is read when grpc starts, hence the process. It prints who answered, or the status of the failure.
"""

from __future__ import annotations

import sys

import grpc


def main(target: str) -> None:
    with grpc.insecure_channel(target) as channel:
        who = channel.unary_unary("/tests.Who/Are")
        for _ in sys.stdin:
            try:
                print(who(b"", timeout=60).decode(), flush=True)  # noqa: T201
            except grpc.RpcError as exc:
                print(exc.code().name, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
