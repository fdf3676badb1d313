"""C14: an exact identifier is found in the default mode and ranked first."""

from __future__ import annotations

import re
from random import Random

import pytest

from tests.support.memories import Connection, recall, remember_many


def noise(random: Random, identifier: str) -> str:
    """A sentence with the identifier's parts, but not the identifier."""
    parts = re.findall(r"\w+", identifier.replace("_", " "))
    if len(parts) == 1:
        parts = [parts[0] + "0", parts[0][:-1]]
    random.shuffle(parts)
    return f"Something about {' and '.join(parts)}, seen {random.randint(2, 99)} times."


@pytest.mark.parametrize(
    "identifier",
    [
        "ERR_4071", "src/net/tls.rs", "GH-1605", "#1605", "ops@example.org", "10.0.13.7",
        "payments-worker-7f9c", "com.example.billing.InvoiceJob", "2026-03-01T09:30",
        "C:\\temp\\dump.log", "--max-retries", "user_id", "x86_64", "std::vector",
        "arn:aws:iam::12",
    ],
)  # fmt: skip
@pytest.mark.parametrize("question", ["{}", "what do we know about {}?", "Why did {} happen again"])
def test_the_memory_with_the_identifier_is_first(
    file_db: Connection, own_name: str, identifier: str, question: str
) -> None:
    random = Random(identifier)
    target = f"It turned out that {identifier} was the cause of the whole trouble."
    items = [{"body": noise(random, identifier)} for _ in range(15)]
    items.insert(7, {"body": target})
    remember_many(file_db, own_name, items)
    assert recall(file_db, own_name, question.format(identifier))[0].body == target
