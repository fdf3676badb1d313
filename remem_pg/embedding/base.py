"""What an embedding model is, what identifies its space, and the check of what it returns."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from remem_pg.embedding.awaiting import awaited
from remem_pg.errors import (
    DimensionMismatch,
    EmbeddingUnavailable,
    InvalidArgument,
    RememError,
    TextRefused,
    VectorRefused,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HASH_BACKEND = "remem-local-hash"
IDENTITY = (
    "backend",
    "asset",
    "dimensions",
    "pooling",
    "normalization",
    "dtype",
    "query_prompt",
    "document_prompt",
)
"""The descriptor's keys that make two spaces the same space, in the order of the fingerprint."""


MAX_DIMENSIONS = 4000
"""The longest vector that the database indexes: HNSW over half-precision vectors."""


@runtime_checkable
class EmbeddingModel(Protocol):
    """Anything that turns texts into vectors of one length.

    `embed` takes the texts as they are.  A model that wants prompts in front of questions or
    documents names them in an optional `descriptor` (see `descriptor_of`), and the caller puts them
    there.
    """

    @property
    def id(self) -> str:
        """Stable: another model, or another version of it, has another id."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of every vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array of shape `(len(texts), dimensions)`."""
        ...


class AsyncEmbeddingModel(Protocol):
    """As EmbeddingModel, with an `embed` to be awaited.

    The asynchronous client awaits it in the caller's own event loop; the synchronous one in a loop
    of its own, the same one every time, so that connections it keeps open stay usable.
    """

    @property
    def id(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class CallableEmbedding:
    """A function `texts -> (n, dimensions)`, plain or async, with the attributes `id` and
    `dimensions`, as a model.

    Its optional attribute `descriptor` is kept.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self.id: str = function.id
        self.dimensions: int = function.dimensions
        self.descriptor: Any = getattr(function, "descriptor", None)

    def embed(self, texts: Sequence[str]) -> Any:
        return self._function(texts)


def descriptor_of(model: EmbeddingModel) -> dict[str, Any]:
    """The description of the model's space, as `remem.register_space` takes it.

    It is the model's own `descriptor` if it has one.  Otherwise the id stands for the whole
    identity.  Raises InvalidArgument when the two dimensions differ, and for an identity or
    dimensions that no space can have.
    """
    own = getattr(model, "descriptor", None)
    described = dict(own) if isinstance(own, Mapping) else {}
    result = {
        "name": model.id,
        "backend": "callable",
        "asset": model.id,
        "dimensions": model.dimensions,
        "pooling": "",
        "normalization": "",
        "dtype": "float32",
        "query_prompt": "",
        "document_prompt": "",
    } | described
    if result["dimensions"] != model.dimensions:
        raise InvalidArgument(
            f"the descriptor of {model.id} says {result['dimensions']} dimensions, "
            f"the model {model.dimensions}",
            detail={"argument": "descriptor", "got": result["dimensions"]},
        )
    for key in ("name", "backend", "asset"):
        if result[key] in (None, ""):
            raise InvalidArgument(
                f"the embedding model has no {key}",
                detail={"argument": key, "value": result[key]},
                hint="id names the model, and each version of it differently",
            )
    result["dimensions"] = _dimensions(result["dimensions"])
    return result


def _dimensions(value: Any) -> int:
    """A number of dimensions as an int; numpy's numbers are none for JSON."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if not 1 <= number <= MAX_DIMENSIONS:
        raise InvalidArgument(
            detail={"argument": "dimensions", "value": value, "limit": MAX_DIMENSIONS},
            hint=f"an embedding model has 1 to {MAX_DIMENSIONS} dimensions",
        )
    return number


def fingerprint(descriptor: Mapping[str, Any]) -> str:
    """SHA-256 in hex of the identity keys, one per line, as `remem._fingerprint` computes it."""
    values = ("" if descriptor.get(key) is None else str(descriptor[key]) for key in IDENTITY)
    return hashlib.sha256("\n".join(values).encode()).hexdigest()


def checked(model: EmbeddingModel, texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed `texts` and refuse what cannot be stored; `(len(texts), model.dimensions)` float32.

    Raises EmbeddingUnavailable when the model fails or returns something else than one row per
    text; DimensionMismatch for rows of another length; VectorRefused, with the item (from 1), for
    NaN, infinity, or a vector without a direction.  Only the built-in hash may return zeros: they
    stand for a text without any feature.
    """
    import numpy as np

    try:
        raw = awaited(model.embed(texts))
        rows = [np.asarray(row, dtype=np.float64) for row in raw]
    except RememError:
        raise
    except Exception as error:  # a model is somebody else's code
        raise EmbeddingUnavailable(
            f"the embedding model {model.id} failed: {type(error).__name__}: {error}"
        ) from error
    if len(rows) != len(texts):
        raise EmbeddingUnavailable(
            f"the embedding model {model.id} returned {len(rows)} vectors for {len(texts)} texts"
        )
    for number, row in enumerate(rows, 1):
        if row.shape != (model.dimensions,):
            got = row.size if row.ndim == 1 else list(row.shape)
            raise DimensionMismatch(
                detail={
                    "got": got,
                    "expected": model.dimensions,
                    "space": descriptor_of(model)["name"],
                    "item": number,
                }
            )
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused
        result = np.asarray(rows, dtype=np.float32).reshape(len(texts), model.dimensions)
    may_be_zero = descriptor_of(model)["backend"] == HASH_BACKEND
    for number, vector in enumerate(result, 1):
        finite = bool(np.isfinite(vector).all())
        if not finite or not (vector.any() or may_be_zero):
            why = "is all zero" if finite else "holds NaN or infinity"
            raise VectorRefused(
                f"the vector of the embedding model {model.id} {why}", detail={"item": number}
            )
    return result


def check_texts(texts: Sequence[str]) -> None:
    """Refuses a single text in place of a list, and a text that is not Unicode (TextRefused)."""
    if isinstance(texts, str):
        raise InvalidArgument("texts is a list of texts", detail={"argument": "texts"})
    for number, text in enumerate(texts, 1):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise TextRefused(
                detail={"item": number, "position": error.start, "value": "lone surrogate"}
            ) from error
