"""Cards for scripts that tests write themselves."""

from __future__ import annotations

GIB = 1 << 30


def uuid(number):
    return f"GPU-{number}{number}a1b2c3-0000-4000-8000-000000000000"


def card(number, **fields):
    """A card that tells everything; each differs from the others in UUID and temperature."""
    memory = {"total": 80 * GIB, "reserved": GIB, "free": 60 * GIB, "used": 19 * GIB}
    base = {"uuid": uuid(number), "name": "A card", "memory": memory, "utilization": [50, 0], "ecc": 0}
    return base | {"temperature": 40 + number, "milliwatts": 100_000} | fields


def mig_device(number):
    memory = {"total": 40 * GIB, "free": 30 * GIB, "used": 10 * GIB}
    return {"uuid": f"MIG-{number}{number}c0ffee-0000-5000-8000-000000000000", "name": "A part", "memory": memory}


def hang(symbol, place="0", seconds=-1, **more):
    """A call that does not return, or for `seconds`."""
    return {"symbol": symbol, "place": place, "hang_seconds": seconds, **more}


def fail(symbol, place, code, **more):
    return {"symbol": symbol, "place": place, "code": code, **more}
