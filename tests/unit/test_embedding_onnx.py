"""Model directories are read as sentence-transformers means them; the packaged MiniLM works."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tokenizers

from remem_pg.embedding import onnx
from remem_pg.embedding.base import fingerprint
from remem_pg.embedding.onnx import OnnxEmbedding, packaged_minilm
from remem_pg.embedding.onnx_network import pool
from remem_pg.errors import EmbeddingUnavailable, InvalidArgument, TextRefused

WORDS = {"[PAD]": 0, "[UNK]": 1, "red": 2, "green": 3, "blue": 4, "ask": 5}


class FakeSession:
    """A network whose token vectors are one-hot: so that a pooled vector can be read by eye."""

    inputs = ("input_ids", "attention_mask", "token_type_ids")
    outputs: tuple[tuple[str, int], ...] = (("last_hidden_state", 3),)
    integer = "tensor(int64)"

    def __init__(self, path: str, options: Any, providers: list[str]) -> None:
        self.feeds: list[dict[str, Any]] = []
        self.options = options
        made.append(self)

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name=name, type=self.integer) for name in self.inputs]

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name=name, shape=["x"] * rank) for name, rank in self.outputs]

    def run(self, names: list[str], feed: dict[str, Any]) -> list[Any]:
        assert set(feed) == set(self.inputs)
        self.feeds.append(feed)
        hidden = np.eye(len(WORDS), dtype=np.float32)[feed["input_ids"]]
        return [hidden if dict(self.outputs)[names[0]] == 3 else 2 * hidden[:, -1]]


made: list[FakeSession] = []


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeSession]:
    """onnxruntime replaced by a fake; the class may be changed for the test."""
    made.clear()
    session = type("Session", (FakeSession,), {})
    runtime = SimpleNamespace(InferenceSession=session, SessionOptions=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)  # type: ignore[arg-type]
    return session


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A model directory with a tokenizer of six words that asks for a fixed length, as some do."""
    root = tmp_path / "Toy-Model"
    root.mkdir()
    (root / "model.onnx").write_bytes(b"weights")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.enable_padding(length=128)
    words.save(str(root / "tokenizer.json"))
    return root


def write(path: Path, document: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document))


def pooling_file(root: Path, **modes: Any) -> None:
    write(root / "1_Pooling" / "config.json", {"word_embedding_dimension": 6} | modes)


# -- pooling ----------------------------------------------------------------------------------


def test_pooling_ignores_the_padding() -> None:
    hidden = np.array([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]], dtype=np.float32)
    mask = np.array([[1, 1, 0]])
    assert pool(hidden, mask, "mean").tolist() == [[0.5, 0.5]]
    assert pool(hidden, mask, "max").tolist() == [[1.0, 1.0]]
    assert pool(hidden, mask, "cls").tolist() == [[1.0, 0.0]]


@pytest.mark.covers("RE9")
@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode": "cls"}, "cls"),
        ({}, "mean"),
    ],
)
def test_the_models_own_pooling_file_decides(
    fake: type[FakeSession], directory: Path, modes: dict[str, Any], expected: str
) -> None:
    pooling_file(directory, **modes)
    model = OnnxEmbedding(directory)
    assert model.descriptor["pooling"] == expected
    second = model.embed(["red green"])[0, WORDS["green"]]
    assert second == pytest.approx(np.sqrt(0.5) if expected == "mean" else 0.0)


@pytest.mark.covers("RE9", "RE12")
def test_the_caller_may_override_the_pooling_which_makes_another_space(
    fake: type[FakeSession], directory: Path
) -> None:
    pooling_file(directory, pooling_mode_mean_tokens=True)
    own, cls = OnnxEmbedding(directory), OnnxEmbedding(directory, pooling="cls")
    assert cls.descriptor["pooling"] == "cls"
    assert fingerprint(own.descriptor) != fingerprint(cls.descriptor)


def test_an_unknown_pooling_is_an_invalid_argument(directory: Path) -> None:
    with pytest.raises(InvalidArgument, match="mean, cls, max"):
        OnnxEmbedding(directory, pooling="median").load()


def test_a_model_that_pools_by_itself_is_read_as_it_is(
    fake: type[FakeSession], directory: Path
) -> None:
    fake.outputs = (("token_embeddings", 3), ("sentence_embedding", 2))
    model = OnnxEmbedding(directory)
    assert model.descriptor["pooling"] == "model"
    assert model.embed(["red green"])[0].tolist() == [0, 0, 0, 1, 0, 0]  # scaled to length 1
    assert OnnxEmbedding(directory, pooling="mean").descriptor["pooling"] == "mean"


@pytest.mark.parametrize(
    ("modes", "says"),
    [
        ({"pooling_mode_lasttoken": True}, "pooling_mode_lasttoken"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "cls, mean"),
    ],
)
def test_a_pooling_that_is_not_supported_is_refused(
    directory: Path, modes: dict[str, Any], says: str
) -> None:
    pooling_file(directory, **modes)
    with pytest.raises(EmbeddingUnavailable, match="not supported") as caught:
        OnnxEmbedding(directory).load()
    assert all(part in str(caught.value) for part in says.split(", "))


def test_layers_that_an_onnx_file_lacks_are_refused(directory: Path) -> None:
    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    write(
        directory / "modules.json", [{"type": f"sentence_transformers.models.{k}"} for k in kinds]
    )
    with pytest.raises(EmbeddingUnavailable, match="Dense"):
        OnnxEmbedding(directory).load()


# -- what goes into the network ---------------------------------------------------------------


def test_short_texts_share_a_run_and_come_back_in_their_order(
    fake: type[FakeSession], directory: Path
) -> None:
    model = OnnxEmbedding(directory, batch_size=2)
    vectors = model.embed(["red green blue", "red", "green blue", "blue"])
    assert [row.argmax() for row in vectors[[1, 3]]] == [WORDS["red"], WORDS["blue"]]
    assert vectors[0].tolist() == pytest.approx([0, 0, *[3**-0.5] * 3, 0])
    shapes = [feed["input_ids"].shape for feed in made[0].feeds[1:]]  # the first measures
    assert shapes == [(2, 1), (2, 3)]
    assert made[0].feeds[2]["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)


def test_a_run_is_bounded_in_tokens_too(
    fake: type[FakeSession], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "BATCH_TOKENS", 6)
    OnnxEmbedding(directory).embed(["red green blue"] * 4 + ["red"])
    shapes = [feed["input_ids"].shape for feed in made[0].feeds[1:]]
    assert shapes == [(2, 3), (2, 3), (1, 3)]


def test_long_texts_are_cut_where_the_model_ends(fake: type[FakeSession], directory: Path) -> None:
    text = "red " * 600
    for limit, given, expected in ((None, 256, 256), (4, 256, 4), (4, 3, 3), (None, 9999, 512)):
        if limit is not None:
            write(directory / "sentence_bert_config.json", {"max_seq_length": limit})
        else:
            (directory / "sentence_bert_config.json").unlink(missing_ok=True)
        model = OnnxEmbedding(directory, max_length=given)
        model.embed([text])
        assert made[-1].feeds[-1]["input_ids"].shape == (1, expected)
        assert model.descriptor["asset"].endswith(f"@tokens-{expected}")


def test_a_model_gets_the_inputs_it_asks_for(fake: type[FakeSession], directory: Path) -> None:
    fake.inputs, fake.integer = ("input_ids", "attention_mask", "position_ids"), "tensor(int32)"
    OnnxEmbedding(directory).embed(["red green"])
    feed = made[0].feeds[-1]
    assert feed["position_ids"].tolist() == [[0, 1]]
    assert {array.dtype for array in feed.values()} == {np.dtype("int32")}


def test_a_model_of_another_kind_is_refused(fake: type[FakeSession], directory: Path) -> None:
    fake.inputs = ("input_ids", "past_key_values.0")
    with pytest.raises(EmbeddingUnavailable, match=r"no sentence encoder.*past_key_values"):
        OnnxEmbedding(directory).load()


def test_no_texts_give_no_vectors(fake: type[FakeSession], directory: Path) -> None:
    assert OnnxEmbedding(directory).embed([]).shape == (0, 6)


def test_prompts_come_from_the_directory_and_from_the_caller(
    fake: type[FakeSession], directory: Path
) -> None:
    write(
        directory / "config_sentence_transformers.json",
        {"prompts": {"query": "ask ", "passage": "green "}},
    )
    model = OnnxEmbedding(directory, pooling="cls")
    assert model.descriptor["query_prompt"] == "ask "
    assert model.descriptor["document_prompt"] == "green "
    assert model.embed_query("red").argmax() == WORDS["ask"]
    assert model.embed_documents(["red"])[0].argmax() == WORDS["green"]
    assert model.embed(["red"])[0].argmax() == WORDS["red"]
    own = OnnxEmbedding(directory, query_prompt="", document_prompt="blue ")
    assert (own.descriptor["query_prompt"], own.descriptor["document_prompt"]) == ("", "blue ")


def test_a_single_string_is_not_taken_for_a_list(directory: Path) -> None:
    with pytest.raises(InvalidArgument, match="list of texts"):
        OnnxEmbedding(directory).embed("red")


def test_a_lone_surrogate_is_refused_with_its_item(
    fake: type[FakeSession], directory: Path
) -> None:
    with pytest.raises(TextRefused) as caught:
        OnnxEmbedding(directory).embed(["red", "gr\ud800een"])
    assert caught.value.item_no == 2


# -- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("present", "chosen"),
    [
        (["model.onnx", "onnx/model.onnx"], "model.onnx"),
        (["onnx/model.onnx", "onnx/model_int8.onnx"], "onnx/model.onnx"),
        (["onnx/model_O3.onnx", "onnx/model_quantized.onnx"], "onnx/model_quantized.onnx"),
        (["onnx/model_qint8_avx512.onnx", "onnx/model_O2.onnx"], "onnx/model_O2.onnx"),
    ],
)
def test_the_model_file_is_found_in_either_place(
    directory: Path, present: list[str], chosen: str
) -> None:
    (directory / "model.onnx").unlink()
    (directory / "onnx").mkdir()
    for name in present:
        (directory / name).touch()
    model = OnnxEmbedding(directory)
    assert model._files.model == directory / chosen
    assert model.name == "toy-model"
    explicit = OnnxEmbedding(directory / present[-1])
    assert (explicit._files.model, explicit.name) == (directory / present[-1], "toy-model")


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json", "."])
def test_a_missing_part_is_named(directory: Path, missing: str) -> None:
    if missing == ".":
        model = OnnxEmbedding(directory / "nowhere")
        expected = "nowhere"
    else:
        (directory / missing).unlink()
        model = OnnxEmbedding(directory)
        expected = missing
    with pytest.raises(EmbeddingUnavailable, match=expected) as caught:
        model.load()
    assert "tokenizer.json" in str(caught.value.hint)


@pytest.mark.covers("RE12")
def test_the_asset_is_the_content_of_model_and_tokenizer(
    fake: type[FakeSession], directory: Path
) -> None:
    def asset() -> str:
        return str(OnnxEmbedding(directory).descriptor["asset"])

    first = asset()
    assert first == asset()
    (directory / "model.onnx").write_bytes(b"other weights")
    second = asset()
    (directory / "model.onnx_data").write_bytes(b"weights outside")
    third = asset()
    (directory / "tokenizer.json").write_text((directory / "tokenizer.json").read_text() + "\n")
    assert len({first, second, third, asset()}) == 4


def test_the_constructor_reads_nothing(tmp_path: Path) -> None:
    model = OnnxEmbedding(tmp_path / "not-there-yet")
    with pytest.raises(EmbeddingUnavailable, match="not-there-yet"):
        _ = model.dimensions


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
def test_a_broken_file_is_named_by_the_real_libraries(directory: Path, broken: str) -> None:
    packaged = packaged_minilm()
    assert packaged is not None
    for path in packaged._files.parts:
        (directory / path.name).write_bytes(path.read_bytes())
    (directory / broken).write_bytes(b"{ no model")
    with pytest.raises(EmbeddingUnavailable) as caught:
        OnnxEmbedding(directory).load()
    assert str(directory / broken) in str(caught.value)


@pytest.mark.covers("RE10")
@pytest.mark.parametrize("library", ["onnxruntime", "tokenizers"])
def test_without_the_libraries_the_error_says_what_to_install(
    directory: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # type: ignore[arg-type]
    with pytest.raises(EmbeddingUnavailable, match=library) as caught:
        OnnxEmbedding(directory).load()
    assert "pip install 'remem-pg[onnx]'" in str(caught.value)


def test_memory_is_given_back_between_runs(fake: type[FakeSession], directory: Path) -> None:
    OnnxEmbedding(directory, threads=1).load()
    options = made[0].options
    assert (options.enable_cpu_mem_arena, options.enable_mem_pattern) == (False, False)
    assert options.intra_op_num_threads == 1


def test_threads_load_a_model_once(fake: type[FakeSession], directory: Path) -> None:
    model = OnnxEmbedding(directory)
    gate = threading.Barrier(8)

    def work(_: int) -> list[float]:
        gate.wait()
        row: list[float] = model.embed(["red green"])[0].tolist()
        return row

    with ThreadPoolExecutor(8) as pool_of_threads:
        results = list(pool_of_threads.map(work, range(8)))
    assert len(made) == 1
    assert all(result == results[0] for result in results)


# -- the packaged MiniLM ----------------------------------------------------------------------
