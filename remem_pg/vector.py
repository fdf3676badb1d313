"""A checked embedding, and its forms on the way to the database."""

from __future__ import annotations

import struct
from typing import Any

FLOAT4_OID = 700


class Vector:
    """A checked embedding: finite float32 values. ``values`` is a flat tuple of floats."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[float, ...]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def is_zero(self) -> bool:
        """True when no direction is left to compare."""
        return not any(self.values)

    def as_json(self) -> str:
        """A JSON array; nine digits give every float32 back."""
        return "[" + ",".join(["%.9g" % value for value in self.values]) + "]"  # noqa: UP031

    def as_binary(self) -> bytes:
        """The binary form of a one-dimensional ``real[]``: about 8 bytes a value."""
        count = len(self.values)
        if not count:
            return struct.pack(">iiI", 0, 0, FLOAT4_OID)
        body: list[Any] = [4] * (2 * count)
        body[1::2] = self.values
        return struct.pack(f">iiIii{'if' * count}", 1, 0, FLOAT4_OID, count, 1, *body)
