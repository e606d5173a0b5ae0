"""tokenizer.json: token for token what the `tokenizers` package does, on tokenizers trained here."""
import json
import random

import pytest
from tokenizer_cases import (CODE_POINTS, LLAMA3, MAKERS, MIXED_TEXT, SPECIAL, assert_rows_equal, decode, encode_file,
                             encode_lines, encode_text, mixed_text, reference_ids, sentencepiece_model)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """name -> (reference tokenizer, folder with its tokenizer.json), made on first use."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            tokenizer = MAKERS[name]()
            tokenizer.save(str(folder / "tokenizer.json"))
            made[name] = (tokenizer, folder)
        return made[name]

    return get


@pytest.mark.parametrize("name", ["qwen", "llama3", "gpt2", "llama2-newer", "o200k-pcre2", "digits-punctuation-suffix",
                                  "metaspace-always"])
def test_every_code_point(wmtp, saved, tmp_path, name):
    """Each code point between letters, so that its class shows in the split."""
    tokenizer, folder = saved(name)
    groups = ["".join(f"a{c}b{c} {c}1" for c in CODE_POINTS[i:i + 50]) for i in range(0, len(CODE_POINTS), 50)]
    if name != "qwen":  # the others share its tables: a sample will do
        groups = groups[:200] + groups[200::25]
    assert_rows_equal(encode_lines(wmtp, folder, groups, tmp_path), reference_ids(tokenizer, groups), groups)


@pytest.mark.parametrize("name", MAKERS)
def test_mixed_text(wmtp, saved, tmp_path, name):
    tokenizer, folder = saved(name)
    lines = MIXED_TEXT.split("\n")
    ours = encode_lines(wmtp, folder, lines, tmp_path)
    assert_rows_equal(ours, reference_ids(tokenizer, lines), lines)
    assert_rows_equal(decode(wmtp, folder, ours), tokenizer.decode_batch(ours, skip_special_tokens=False), lines)


@pytest.mark.parametrize("name", MAKERS)
def test_whole_document_with_line_feeds(wmtp, saved, tmp_path, name):
    tokenizer, folder = saved(name)
    text = mixed_text(150_000, seed=3)
    assert encode_text(wmtp, folder, text, tmp_path) == reference_ids(tokenizer, [text])[0]


@pytest.mark.parametrize("name", ["qwen", "llama3", "llama2-older", "llama2-newer"])
@pytest.mark.parametrize("allow", [True, False])
def test_special_and_added_tokens_in_text(wmtp, saved, tmp_path, name, allow):
    tokenizer, folder = saved(name)
    rng = random.Random(4)
    pieces = SPECIAL + ["<tool>", "spaced", "word", "café!", "cafe\u0301!", " ", "  ", "a", "▁", "\t", "x", "é", "<", "|>", "<|im_",
                        "words", "-", "안", "한글"]
    rows = ["".join(rng.choices(pieces, k=rng.randint(1, 12))) for _ in range(20_000)]
    flags = ["--allow-special"] if allow else []
    assert_rows_equal(encode_lines(wmtp, folder, rows, tmp_path, *flags), reference_ids(tokenizer, rows, allow), rows)
    ours = encode_lines(wmtp, folder, rows[:2000], tmp_path, "--add-special", *flags)
    assert_rows_equal(ours, reference_ids(tokenizer, rows[:2000], allow, add_special_tokens=True), rows)
    shown = decode(wmtp, folder, ours, "--skip-special")
    assert_rows_equal(shown, tokenizer.decode_batch(ours, skip_special_tokens=True), rows)


@pytest.mark.parametrize("name", ["qwen", "llama2-newer", "metaspace-always"])
def test_decoding_random_ids(wmtp, saved, name):
    """Random ids make invalid UTF-8: U+FFFD in the same places."""
    tokenizer, folder = saved(name)
    rng = random.Random(5)
    rows = [[rng.randrange(tokenizer.get_vocab_size()) for _ in range(rng.randint(0, 20))] for _ in range(5000)]
    for skip in (True, False):
        ours = decode(wmtp, folder, rows, *(["--skip-special"] if skip else []))
        assert_rows_equal(ours, tokenizer.decode_batch(rows, skip_special_tokens=skip), rows)


def test_normal_forms_of_mark_sequences(wmtp, saved, tmp_path):
    """Combining marks in random orders, also ones the reference's normaliser does not know."""
    tokenizer, folder = saved("qwen")
    rng = random.Random(6)
    marks = [chr(c) for c in (*range(0x300, 0x345), 0x8D3, 0x898, 0x1AC1, 0x11938, 0x11935, 0x11930, 0x93C, 0x1161,
                              0x11A8, 0x3099, 0x345, 0x5B0, 0x64B, 0xF71, 0xF72)]
    bases = ["a", "é", "ạ", "\u0958", "각", "가", "\u1100", "か", "\U00011938", "\ua7f2", "Å", " ", "ṩ"]
    rows = ["".join(rng.choice(bases) + "".join(rng.choices(marks, k=rng.randint(0, 4))) for _ in range(5))
            for _ in range(20_000)]
    assert_rows_equal(encode_lines(wmtp, folder, rows, tmp_path), reference_ids(tokenizer, rows), rows)


def test_long_pieces_take_the_heap(wmtp, saved, tmp_path):
    tokenizer, folder = saved("qwen")
    rng = random.Random(7)
    rows = ["".join(rng.choices("abcde", k=n)) for n in (63, 64, 65, 66, 500, 20_000)] + ["a" * 50_000, " " * 50_000]
    assert_rows_equal(encode_lines(wmtp, folder, rows, tmp_path), reference_ids(tokenizer, rows), rows)


def test_merges_as_strings_and_as_pairs_are_the_same(wmtp, saved, tmp_path):
    tokenizer, folder = saved("llama3")
    state = json.loads((folder / "tokenizer.json").read_text())
    state["model"]["merges"] = [" ".join(pair) for pair in state["model"]["merges"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    rows = mixed_text(50_000, seed=8).split("\n")
    assert encode_lines(wmtp, tmp_path, rows, tmp_path) == reference_ids(tokenizer, rows)


def test_invalid_utf8_is_65_with_the_offset(wmtp, saved, tmp_path):
    _, folder = saved("qwen")
    rng = random.Random(9)
    path = tmp_path / "bytes.txt"
    cases = [b"ok\xff", b"\xc0\x80", b"ab\xed\xa0\x80", b"\xf4\x90\x80\x80", b"x\xe2\x82", b"\x80"]
    cases += [bytes(rng.randrange(256) for _ in range(40)) for _ in range(10)]
    for data in cases:
        path.write_bytes(data)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            message = wmtp.error("tokenizer", "encode", "--tokenizer", folder, path, code=65)["message"]
            assert f"invalid UTF-8 at byte {error.start}" in message and "bytes.txt" in message
        else:
            assert decode(wmtp, folder, encode_file(wmtp, folder, path)) == [text]


def test_command_forms(wmtp, saved, tmp_path):
    tokenizer, folder = saved("llama3")
    (tmp_path / "one.txt").write_bytes(b" a \n")
    (tmp_path / "two.txt").write_bytes(b"")
    lines = wmtp.json_lines("tokenizer", "encode", "--tokenizer", folder / "tokenizer.json", "--pieces",
                            tmp_path / "one.txt", tmp_path / "two.txt")
    assert [line["file"] for line in lines] == [str(tmp_path / "one.txt"), str(tmp_path / "two.txt")]
    expected = tokenizer.encode(" a \n", add_special_tokens=False)
    assert lines[0]["type"] == "tokens" and lines[0]["ids"] == expected.ids and lines[0]["pieces"] == expected.tokens
    assert lines[1]["ids"] == [] and "ts" not in lines[1]
    done = wmtp.run("tokenizer", "encode", "--tokenizer", folder, input="x\ny")
    assert wmtp.run("tokenizer", "decode", "--tokenizer", folder, input=done.stdout).stdout == "x\ny"
    shown = wmtp.json("tokenizer", "inspect", "--tokenizer", folder)
    assert shown["kind"] == "bpe/byte-level" and shown["splitter"] == "scanner llama3" and shown["split_pattern"] == LLAMA3
    assert shown["adds_bos"] and shown["bos"] == 1 and shown["vocabulary"] == tokenizer.get_vocab_size()


# ---- other people's folders ----

NO_LIMIT = 1000000000000000019884624838656


def test_no_limit_of_transformers(wmtp, saved, tmp_path):
    """model_max_length is not ours: whatever number stands there, the folder is read."""
    _, source = saved("llama2-newer")
    state = json.loads((source / "tokenizer.json").read_text())
    state["truncation"] = {"max_length": NO_LIMIT, "direction": "Right", "strategy": "LongestFirst", "stride": 0}
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(
        {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "model_max_length": NO_LIMIT, "legacy": -NO_LIMIT}))
    assert wmtp.json("tokenizer", "inspect", "--tokenizer", tmp_path)["eos"] == 2
    for key in ("vocab", "added"):  # ids are ours
        wrong = json.loads(json.dumps(state))
        if key == "vocab":
            wrong["model"]["vocab"]["a"] = NO_LIMIT
        else:
            wrong["added_tokens"][0]["id"] = NO_LIMIT
        (tmp_path / "tokenizer.json").write_text(json.dumps(wrong))
        wmtp.error("tokenizer", "inspect", "--tokenizer", tmp_path, code=65)


def test_bytes_after_the_end_are_refused(wmtp, saved, tmp_path):
    _, source = saved("qwen")
    good = {"tokenizer.json": (source / "tokenizer.json").read_bytes(), "tokenizer_config.json": b'{"bos_token": "<s>"}'}
    for name in good:
        for tail in (b"\0", b"\0" * 4096, b'\0{"a": 1}', b"x", b"{}"):
            for file, data in good.items():
                (tmp_path / file).write_bytes(data + (tail if file == name else b"\n \n"))
            message = wmtp.error("tokenizer", "inspect", "--tokenizer", tmp_path, code=65)["message"]
            assert name in message, message


ROW = {"instruction": "from abc import get_cache_token", "input": "",
       "output": "x = get_cache_token ( y )\n    return  x - 1  # \u00e9\u4e2d\U0001f600 z"}


@pytest.mark.parametrize("name", ["tokenizer.model", "llama2-older", "llama2-newer", "metaspace-always", "qwen"])
def test_what_is_shown_keeps_its_spaces(wmtp, saved, tmp_path, name):
    """data inspect, the first sample of the log, the console's sample and samples.jsonl: the text of the row."""
    if name == "tokenizer.model":
        folder = tmp_path / "sp"
        folder.mkdir()
        processor = sentencepiece_model(folder, byte_fallback=True, remove_extra_whitespaces=False)
        decode_ids, vocabulary = processor.decode, processor.vocab_size()
    else:
        tokenizer, folder = saved(name)
        vocabulary = tokenizer.get_vocab_size()
        decode_ids = lambda ids: tokenizer.decode(ids, skip_special_tokens=False)
    (tmp_path / "train.jsonl").write_text(json.dumps(ROW) + "\n")
    (tmp_path / "run.yaml").write_text(json.dumps({
        "experiment": {"name": "t", "stage": "baseline"},
        "models": {"policy": {"path": "micro", "tokenizer_path": str(folder), "init": "random",
                              "params": {"vocab_size": vocabulary, "dim": 16, "n_heads": 2, "head_dim": 8, "ffn_dim": 16}}},
        "dataset": {"train": "train.jsonl", "max_length": 1000, "append_eos": name != "qwen"},
        "training": {"batch_size": 1, "learning_rate": 1e-3, "max_steps": 1},
        "checkpoint": {"save_final": False, "save_best": False, "export_on_finish": "none"},
        "runtime": {"device": "cpu", "cache_dir": "cache", "threads": 1}}))
    inspect = ("data", "inspect", "--config", "run.yaml", "--rows", 0)
    [sequence] = wmtp.json(*inspect, cwd=tmp_path)["sequences"]
    expected = decode_ids(sequence["ids"])
    assert "from abc import get_cache_token" in expected
    shown = wmtp.run("--color", "never", *inspect, cwd=tmp_path).stdout
    assert expected in shown.replace(">>", "").replace("<<", "")
    done = wmtp.run("train", "--config", "run.yaml", "--run-dir", "run", cwd=tmp_path)
    samples = [json.loads(line) for line in (tmp_path / "run/samples.jsonl").open()]
    assert ["".join(token["t"] for token in sample["tokens"]) for sample in samples] == [expected] * len(samples)
    assert "from abc import get_cache_token" in (done.stdout + done.stderr)
