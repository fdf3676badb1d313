"""How long a text counts: its bytes in UTF-8, or what a tokenizer of the caller's says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Tokenizer = Callable[[str], Any]


class Meter:
    """Measures texts. Bytes are an upper bound of any model's tokens: the context is rather a bit
    short than too long.

    A tokenizer is any function of a text that gives a whole number, or a list of tokens. One that
    raises or gives something else is left out from then on, and bytes count; ``failure`` names it.
    """

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer
        self.failure: str | None = None

    @property
    def unit(self) -> str:
        """``bytes`` or ``tokens``."""
        return "bytes" if self._tokenizer is None else "tokens"

    def __call__(self, text: str) -> int:
        if self._tokenizer is not None:
            try:
                return self._counted(self._tokenizer(text), text)
            except Exception as error:  # somebody else's code: bytes are always there
                self.failure = type(error).__name__
                self._tokenizer = None
        return len(text.encode("utf-8"))

    @staticmethod
    def _counted(answer: Any, text: str) -> int:
        if isinstance(answer, bool):
            raise TypeError("a tokenizer gives a number")
        count = answer if isinstance(answer, int) else len(answer)
        if count < 0 or (count == 0 and text.strip()):
            raise ValueError("a tokenizer gives how many tokens there are")
        return count
