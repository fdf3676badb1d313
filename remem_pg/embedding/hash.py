"""The built-in embedding `remem-local-hash-v1`: signed feature hashing into 384 dimensions.

Equal to `remem._hash_embed` for every text.  It needs no model and no network.  It is not a general
neural model: it sees shared words, parts of words and neighbouring words, and seven small groups of
technical synonyms; features may collide.

A text's features are counted in buckets, an even bucket upwards and an odd one downwards, and the
result is scaled to length one.  Features: every distinct token twice; `concept:<group>` eight times
for a token of a group; the three-unit windows of `^token$` as `tri:...` for tokens of five or more;
each neighbouring pair as `pair:left:right`.  The hash is 32-bit FNV-1a over UTF-16 code units.  The
algorithm also hashes every feature with a second seed and takes the sign from the lowest bit; both
seeds and the multiplier are odd and 384 is even, so that bit is always the bucket's own lowest bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from remem_pg.text import hash_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODEL_ID: Final = "remem-local-hash-v1"
DIMENSIONS: Final = 384
SEED: Final = 2166136261
PRIME: Final = 16777619
MASK: Final = 0xFFFFFFFF

CONCEPTS: Final = (
    "auth authentication credential credentials identity iam login oauth token",
    "amazon aws bedrock",
    "database db postgres postgresql sql",
    "failure incident issue problem troubleshooting",
    "decision decided choice chosen",
    "deploy deployment release shipping",
    "queue kafka messaging stream",
)
"""The groups of words that count as one concept, by index."""


def utf16_units(text: str) -> list[int]:
    """The UTF-16 code units of a text, two for a character beyond U+FFFF."""
    if text.isascii():
        return list(text.encode("ascii"))
    data = text.encode("utf-16-le")
    return [low | high << 8 for low, high in zip(data[::2], data[1::2], strict=True)]


def fnv1a(units: Iterable[int], state: int = SEED) -> int:
    """Continue the 32-bit hash from a state, one UTF-16 code unit at a time."""
    for unit in units:
        state = ((state ^ unit) * PRIME) & MASK
    return state


_TRI: Final = fnv1a(b"tri:")
_PAIR: Final = fnv1a(b"pair:")
_CONCEPT_OF: Final = {
    word: fnv1a(f"concept:{index}".encode()) % DIMENSIONS
    for index, words in enumerate(CONCEPTS)
    for word in words.split()
}


@lru_cache(maxsize=20_000)
def _token_features(token: str) -> tuple[list[int], list[int], int]:
    """Buckets of a token by itself, its code units, and the hash of `pair:token:`."""
    units = utf16_units(token)
    buckets = [fnv1a(units) % DIMENSIONS] * 2
    if token in _CONCEPT_OF:
        buckets += [_CONCEPT_OF[token]] * 8
    if len(units) >= 5:
        marked = [ord("^"), *units, ord("$")]
        windows = zip(marked, marked[1:], marked[2:], strict=False)
        buckets += [fnv1a(window, _TRI) % DIMENSIONS for window in windows]
    return buckets, units, fnv1a([*units, ord(":")], _PAIR)


def feature_buckets(text: str) -> list[int]:
    """The bucket of every feature of a text, repeated as often as the feature counts."""
    buckets: list[int] = []
    before: int | None = None
    for token in hash_tokens(text):
        own, units, as_left = _token_features(token)
        buckets += own
        if before is not None:
            buckets.append(fnv1a(units, before) % DIMENSIONS)
        before = as_left
    return buckets


class HashEmbedding:
    """The embedding model that is always there; the same vectors as SQL's `remem.hash_embed`."""

    id: Final = MODEL_ID
    dimensions: Final = DIMENSIONS

    @property
    def descriptor(self) -> dict[str, Any]:
        """The hash space as `remem.register_space` takes it, with its thresholds."""
        return {
            "name": "hash",
            "backend": "remem-local-hash",
            "asset": "builtin:remem-local-hash-v1@algorithm-1",
            "dimensions": DIMENSIONS,
            "pooling": "signed-feature-sum",
            "normalization": "l2",
            "dtype": "float64",
            "query_prompt": "",
            "document_prompt": "",
            "cosine_floor": 0.34,
            "cosine_full": 0.80,
        }

    @property
    def fingerprint(self) -> str:
        """The space's fingerprint, as `remem_pg.embedding.base.fingerprint` computes it."""
        from remem_pg.embedding.base import fingerprint

        return fingerprint(self.descriptor)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return `(len(texts), 384)` float32 rows of length one; zeros for a text without features.

        The sum is exact and the scaling is done in float64, so SQL gives the same float32 values.
        """
        import numpy as np

        signs = np.where(np.arange(DIMENSIONS) % 2 == 0, 1.0, -1.0)
        result = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in enumerate(texts):
            buckets = feature_buckets(text)
            if not buckets:
                continue
            sums = np.bincount(buckets, minlength=DIMENSIONS) * signs
            result[row] = sums / np.sqrt(np.dot(sums, sums))
        return result
