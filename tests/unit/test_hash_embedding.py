"""The hash embedding against the published fixtures and against a plain reading of its rules."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from remem_pg.embedding.base import fingerprint
from remem_pg.embedding.hash import (
    CONCEPTS,
    DIMENSIONS,
    HashEmbedding,
    feature_buckets,
    utf16_units,
)
from remem_pg.text import hash_tokens
from tests.sql.unicode_corpus import WRITTEN, corpus

COSINES = [
    (
        "what did we do about that AWS auth problem?",
        "Bedrock Claude credential passthrough failure",
        0.755904,
    ),
    ("what did we do about that AWS auth problem?", "Weekend pasta recipe", 0.135250),
    ("Project Phoenix database migration", "phoenix postgres cutover", 0.720277),
    ("remember the kafka decision", "queue choice", 0.841711),
]


def seeded_hash(units: list[int], seed: int) -> int:
    for unit in units:
        seed = ((seed ^ unit) * 16777619) % 2**32
    return seed


def bucket_and_sign(units: list[int]) -> tuple[int, int]:
    sign = 1 if seeded_hash(units, 709607) % 2 == 0 else -1
    return seeded_hash(units, 2166136261) % 384, sign


def plain_embedding(text: str) -> list[float]:
    """The rules as written, with both hashes; features are lists of UTF-16 code units."""
    tokens = hash_tokens(text)
    features: list[list[int]] = []
    for token in tokens:
        features += [utf16_units(token)] * 2
        for index, words in enumerate(CONCEPTS):
            features += [utf16_units(f"concept:{index}")] * 8 if token in words.split() else []
        marked = utf16_units(f"^{token}$")
        if len(marked) >= 7:
            features += [
                utf16_units("tri:") + marked[at - 3 : at] for at in range(3, len(marked) + 1)
            ]
    features += [utf16_units(f"pair:{left}:{right}") for left, right in pairwise(tokens)]
    sums = [0] * 384
    for feature in features:
        bucket, sign = bucket_and_sign(feature)
        sums[bucket] += sign
    length = math.sqrt(sum(value * value for value in sums))
    return [value / length if length else 0.0 for value in sums]


@pytest.mark.covers("RP13", "RP14")
@pytest.mark.parametrize(
    ("feature", "bucket", "sign"),
    [("auth", 207, -1), ("concept:0", 97, -1), ("tri:^be", 155, -1), ("pair:aws:auth", 102, 1)],
)
def test_a_feature_has_its_published_bucket_and_sign(feature: str, bucket: int, sign: int) -> None:
    assert bucket_and_sign(utf16_units(feature)) == (bucket, sign)
    text = {"auth": "auth", "concept:0": "auth", "tri:^be": "below", "pair:aws:auth": "aws auth"}
    assert bucket in feature_buckets(text[feature])
    assert np.sign(HashEmbedding().embed([text[feature]])[0][bucket]) == sign


@pytest.mark.covers("RP11", "RP12")
@pytest.mark.parametrize(("left", "right", "expected"), COSINES)
def test_published_cosines(left: str, right: str, expected: float) -> None:
    a, b = HashEmbedding().embed([left, right]).astype(np.float64)
    assert float(a @ b) == pytest.approx(expected, abs=1e-6)


@pytest.mark.covers("RP15")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("login", "oauth"),
        ("aws", "bedrock"),
        ("postgres", "database"),
        ("incident", "failure"),
        ("decided", "choice"),
        ("deployment", "shipping"),
        ("kafka", "queue"),
    ],
)
def test_words_of_a_concept_group_resemble_each_other(left: str, right: str) -> None:
    ours, theirs, outside = HashEmbedding().embed([left, right, "pasta"])
    assert float(ours @ theirs) > 0.5 > float(ours @ outside)


@pytest.mark.covers("RP16")
def test_outside_its_groups_the_hash_knows_spelling_and_not_meaning() -> None:
    car, vehicle, cars = HashEmbedding().embed(["automobile", "vehicle", "automobiles"])
    assert float(car @ vehicle) < 0.34 < float(car @ cars)


@pytest.mark.covers("RP13")
def test_published_vector() -> None:
    vector = HashEmbedding().embed(["Remem doctor"])[0]
    nonzero = np.flatnonzero(vector)
    assert len(nonzero) == 14
    assert list(nonzero[:4]) == [18, 34, 46, 49]
    assert vector[nonzero[:4]] == pytest.approx([0.447214, 0.223607, 0.223607, -0.447214], abs=1e-6)


def test_the_single_hash_equals_the_rules_with_two() -> None:
    texts = corpus(mixtures=150)
    for text, vector in zip(texts, HashEmbedding().embed(texts), strict=True):
        assert vector == pytest.approx(plain_embedding(text), abs=1e-6)


@pytest.mark.parametrize("text", ["", "   ", "the of and", "a b c", "!?… —", "\u0301"])
def test_a_text_without_features_is_all_zero(text: str) -> None:
    assert not HashEmbedding().embed([text]).any()


def test_rows_are_float32_of_length_one() -> None:
    texts = [text for text in WRITTEN if feature_buckets(text)]
    vectors = HashEmbedding().embed(texts)
    assert vectors.shape == (len(texts), DIMENSIONS)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-6)
    assert HashEmbedding().embed([]).shape == (0, DIMENSIONS)


@pytest.mark.covers("RP11", "RP12")
def test_the_model_names_itself_and_its_space() -> None:
    model = HashEmbedding()
    assert (model.id, model.dimensions) == ("remem-local-hash-v1", 384)
    assert model.descriptor["asset"] == "builtin:remem-local-hash-v1@algorithm-1"
    assert (model.descriptor["cosine_floor"], model.descriptor["cosine_full"]) == (0.34, 0.80)
    assert model.fingerprint == fingerprint(model.descriptor)


def test_importing_the_model_does_not_import_numpy() -> None:
    code = "import sys, remem_pg.embedding.hash; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
