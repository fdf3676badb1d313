"""What is asked: the prompt itself, or the last thing that the user said in a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from remem_pg.errors import InvalidArgument

PROMPT_CHARACTERS = 20_000
"""Characters of a prompt that are looked at: half from its start, half from its end."""

QUERY_CHARACTERS = 2_000
"""Characters of it that are searched for, and embedded."""


def prompt_of(given: Any) -> str:
    """The text to plan with, storable and of bounded length. Raises InvalidArgument for what is
    neither a text nor a list of messages (``role`` and ``content``)."""
    if isinstance(given, str):
        text = given
    elif isinstance(given, Sequence) and not isinstance(given, bytes):
        text = _last_said(given)
    else:
        raise InvalidArgument(
            f"a prompt is a text or a list of messages, not {type(given).__name__}",
            detail={"argument": "prompt"},
        )
    text = text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    text = text.strip()
    half = PROMPT_CHARACTERS // 2
    return text if len(text) <= PROMPT_CHARACTERS else f"{text[:half]}\n{text[-half + 1 :]}"


def _last_said(messages: Sequence[Any]) -> str:
    for message in reversed(messages):
        if not isinstance(message, Mapping):
            raise InvalidArgument(
                f"a message is a dict with role and content, not {type(message).__name__}",
                detail={"argument": "messages"},
            )
        if message.get("role") == "user" and (text := _content(message.get("content"))):
            return text
    return ""


def _content(content: Any) -> str:
    """A message's text: a text, or the text parts of a list of parts."""
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, Sequence):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return "\n".join(part for part in parts if isinstance(part, str)).strip()
