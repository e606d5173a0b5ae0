"""Tokenizers as vocab.json and merges.txt: the ids of the transformers class that such a folder names."""
import json
import random

import pytest
from tokenizer_cases import assert_rows_equal, decode, encode_lines, mixed_text, reference_ids
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

NAMED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>", "<new>", "<pad>", "plain"]


@pytest.fixture(scope="module")
def model():
    """A trained byte-level model: vocabulary and merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=800, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(mixed_text(30_000, seed=20).splitlines(keepends=True), trainer)
    state = json.loads(tokenizer.to_str())["model"]
    return state["vocab"], [" ".join(pair) for pair in state["merges"]]


def write_folder(folder, model, config, in_vocab=("<|endoftext|>",), files=None, end="\n"):
    vocab, merges = model
    vocab = {**vocab, **{token: len(vocab) + i for i, token in enumerate(in_vocab)}}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_bytes(end.join(["#version: 0.2", *merges, ""]).encode())
    for name, content in {"tokenizer_config.json": config, **(files or {})}.items():
        (folder / name).write_text(json.dumps(content))
    return len(vocab)


def token(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True,
            **flags}


def decoder(first):
    return {"added_tokens_decoder": {
        str(first): token("<|im_start|>"), str(first + 1): token("<|im_end|>"),
        str(first + 2): token("<tool>", special=False, normalized=True), str(first + 3): token("<new>", lstrip=True, rstrip=True)}}


FORMS = {
    "gpt2": (dict(tokenizer_class="GPT2Tokenizer"), {}),
    "gpt2 with prefix space, bos and eos": (dict(tokenizer_class="GPT2TokenizerFast", add_prefix_space=True, add_bos_token=True,
                                                 add_eos_token=True, eos_token="<|im_end|>", pad_token="<pad>"), {}),
    "gpt2 with older files": (dict(tokenizer_class="GPT2Tokenizer"), {
        "special_tokens_map.json": {"bos_token": "<|im_start|>", "eos_token": token("<|im_end|>", lstrip=True),
                                    "additional_special_tokens": ["<new>"]},
        "added_tokens.json": {"<|im_start|>": 0, "<tool>": 1}}),
    "qwen2": (dict(tokenizer_class="Qwen2Tokenizer"), {}),
    "qwen2 with decoder": (dict(tokenizer_class="Qwen2Tokenizer", bos_token=None, unk_token=None, eos_token="<|im_end|>",
                                additional_special_tokens=["<|im_start|>", "<|im_end|>"]), "decoder"),
    "gpt2 with decoder": (dict(tokenizer_class="GPT2Tokenizer", eos_token="<|im_end|>", image_token="<pad>"), "decoder"),
    "qwen2 with older files": (dict(tokenizer_class="Qwen2TokenizerFast", eos_token="<|im_end|>", pad_token="<pad>"), {
        "special_tokens_map.json": {"additional_special_tokens": ["<|im_start|>", "<new>"]},
        "added_tokens.json": {"<|im_end|>": 0, "<|im_start|>": 1, "plain": 2}}),
}


@pytest.mark.parametrize("form", FORMS)
def test_ids_are_those_of_transformers(wmtp, model, tmp_path, form):
    config, files = FORMS[form]
    first = len(model[0]) + 1
    if files == "decoder":
        config, files = {**config, **decoder(first)}, {}
    if "added_tokens.json" in files:
        files = {**files, "added_tokens.json": {name: first + i for name, i in files["added_tokens.json"].items()}}
    write_folder(tmp_path, model, config, files=files, end="\r\n" if "prefix" in form else "\n")
    reference = AutoTokenizer.from_pretrained(tmp_path)
    rng = random.Random(1)
    pieces = [*NAMED, " ", "  ", "\u00a0", "a", " word", "é", "e\u0301", "12345", "don't", "한글", "<|im_", "\t"]
    rows = ["".join(rng.choices(pieces, k=rng.randint(1, 10))) for _ in range(300)]
    rows += mixed_text(5_000, seed=21).replace("\x00", "").split("\n")
    shown = wmtp.json("tokenizer", "inspect", "--tokenizer", tmp_path)
    assert shown["vocabulary"] == len(reference)
    assert shown["bos"] == reference.bos_token_id and shown["eos"] == reference.eos_token_id
    expected = [reference.encode(row, add_special_tokens=False) for row in rows]
    assert_rows_equal(encode_lines(wmtp, tmp_path, rows, tmp_path, "--allow-special"), expected, rows)
    if "bos" in form:
        framed = [reference.encode(row) for row in rows[:50]]
        assert_rows_equal(encode_lines(wmtp, tmp_path, rows[:50], tmp_path, "--allow-special", "--add-special"), framed, rows)
    for skip in (True, False):
        ours = decode(wmtp, tmp_path, expected[:300], *(["--skip-special"] if skip else []))
        assert_rows_equal(ours, [reference.decode(ids, skip_special_tokens=skip) for ids in expected[:300]], rows)
    assert_rows_equal(encode_lines(wmtp, tmp_path, rows, tmp_path), reference_ids(reference.backend_tokenizer, rows), rows)


@pytest.mark.parametrize("config, part", [
    ({}, "no tokenizer_class"),
    ({"tokenizer_class": "RobertaTokenizer"}, "RobertaTokenizer"),
    ({"tokenizer_class": "PreTrainedTokenizerFast"}, "PreTrainedTokenizerFast"),
])
def test_unknown_ways_of_splitting_are_refused_by_name(wmtp, model, tmp_path, config, part):
    write_folder(tmp_path, model, config)
    error = wmtp.error("tokenizer", "inspect", "--tokenizer", tmp_path, code=78)
    assert part in error["message"] and "save_pretrained" in error["hint"]


def test_damaged_folders_are_65_with_the_place(wmtp, model, tmp_path):
    config = {"tokenizer_class": "GPT2Tokenizer"}
    size = write_folder(tmp_path, model, config)
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b c\n")
    assert "line 2" in wmtp.error("tokenizer", "inspect", "--tokenizer", tmp_path, code=65)["message"]
    write_folder(tmp_path, model, {**config, "added_tokens_decoder": {str(size + 5): token("<tool>")}})
    message = wmtp.error("tokenizer", "inspect", "--tokenizer", tmp_path, code=65)["message"]
    assert "'<tool>'" in message and str(size) in message
    (tmp_path / "merges.txt").unlink()
    message = wmtp.error("tokenizer", "inspect", "--tokenizer", tmp_path, code=78)["message"]
    assert "merges.txt" in message
