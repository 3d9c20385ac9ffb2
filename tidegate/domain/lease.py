"""Who leads: one controller decides, the others stand by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """The lead of `instance`. `token` fences it: a later lease has a greater one, and no two are alike.

    In the key `leader` it reads `{token} {instance}`: `1764453600123 gpu-1:4711`.
    """

    instance: str
    token: int

    @property
    def text(self) -> str:
        """As the key holds it."""
        return f"{self.token} {self.instance}"


def read_lease(text: str) -> Lease | None:
    """The lease of a key's text; None where it is none."""
    token, space, instance = text.partition(" ")
    if not space or not instance or not (token.isascii() and token.isdigit()) or len(token) > 18:
        return None
    return Lease(instance, int(token))
