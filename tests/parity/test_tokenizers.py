"""Token for token what the `tokenizers` and `sentencepiece` packages do, on tokenizers trained here."""
import io
import json
import random
import subprocess

import pytest
import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|endoftext|>"]
CODE_POINTS = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000 and c != 10]


# ---- text ----

def random_word(rng, alphabet):
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 9)))


def mixed_text(num_chars, seed):
    """Code, prose with contractions, Korean, Chinese, Arabic, accents in both forms, emoji, controls."""
    rng = random.Random(seed)
    latin = [random_word(rng, "abcdefghijklmnopqrstuvwxyz") for _ in range(3000)]
    hangul = [random_word(rng, [chr(c) for c in range(0xAC00, 0xAC00 + 900)]) for _ in range(2000)]
    han = [chr(c) for c in range(0x4E00, 0x4E00 + 2000)]
    arabic = [chr(c) for c in range(0x621, 0x64B)]
    accents = ["é", "e\u0301", "ạ\u0302", "q\u0323\u0307", "ﬁ", "Å", "Ω", "각", "\u1100\u1161\u11A8", "ǆ", "İ", "ß"]
    emoji = ["🙂", "👩\u200d👩\u200d👧", "🇰🇷", "❤\ufe0f", "🏳\ufe0f\u200d🌈"]
    spaces = [" ", "  ", "   ", "\n", "\r\n", "\n\n  ", "\t", "\u3000", "\u00a0", " \u2009 ", "\u0085", "\x0b"]
    code = ["def f(x):\n    return x+1\n", "if (a<=b) {\r\n\t++i;\r\n}", "0x1F", "a_b", "::", "//---", "'''", "'ll", "'S",
            "don't", "I'VE", "'\u017f", "12345", "3.1415", "²³", "Ⅷ", "٣", "<|im_start|", "▁", "<s", "</s>x", "\x00", "\x1b[0m",
            "\u200b", "\ufeff", "\ufffd"]
    makers = [lambda: rng.choice(latin), lambda: rng.choice(latin).title(), lambda: rng.choice(hangul),
              lambda: random_word(rng, han), lambda: random_word(rng, arabic), lambda: rng.choice(accents),
              lambda: rng.choice(emoji), lambda: rng.choice(code), lambda: str(rng.randint(0, 10**6)),
              lambda: chr(rng.choice([rng.randint(0x80, 0xD7FF), rng.randint(0xE000, 0x10FFFF)]))]
    weights = [40, 6, 15, 3, 3, 4, 2, 12, 5, 3]
    parts, size = [], 0
    while size < num_chars:
        part = rng.choices(makers, weights)[0]() + rng.choices(spaces, [60] + [3] * (len(spaces) - 1))[0]
        parts.append(part)
        size += len(part)
    return "".join(parts)


MIXED_TEXT = mixed_text(600_000, seed=2)
TRAINING_TEXT = mixed_text(400_000, seed=1)


# ---- tokenizers ----

def train(tokenizer, vocab_size=3000, **options):
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, special_tokens=SPECIAL, **options)
    tokenizer.train_from_iterator(TRAINING_TEXT.splitlines(keepends=True), trainer)
    return tokenizer


def byte_level(pattern, normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def qwen():
    tokenizer = byte_level(QWEN, normalizers.NFC())
    tokenizer.add_tokens(["<tool>", AddedToken("spaced", lstrip=True, rstrip=True, normalized=False),
                          AddedToken("word", single_word=True), AddedToken("caf\u00e9!", normalized=True)])
    return tokenizer


def llama3():
    tokenizer = byte_level(LLAMA3, ignore_merges=True)
    begin = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", begin)])])
    return tokenizer


def gpt2(add_prefix_space=False):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def llama2(older):
    """Byte-fallback BPE, its vocabulary grown from the training text, then given the Llama-2 form."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=3000, show_progress=False, limit_alphabet=500,
                                  special_tokens=SPECIAL[:3] + bytes_)
    tokenizer.train_from_iterator(TRAINING_TEXT.splitlines(), trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] in SPECIAL]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    if older:
        tokenizer.pre_tokenizer = None
    else:
        tokenizer.normalizer = None
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def many_components(pre, normalizer, decoder, **model):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **model))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer, pre, decoder
    options = {k: v for k, v in model.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}
    return train(tokenizer, limit_alphabet=600, **options)


P, N, D = pre_tokenizers, normalizers, decoders
MAKERS = {
    "qwen": qwen,
    "llama3": llama3,
    "gpt2": gpt2,
    "gpt2-prefix-space": lambda: gpt2(True),
    "llama2-older": lambda: llama2(True),
    "llama2-newer": lambda: llama2(False),
    "o200k-pcre2": lambda: byte_level(O200K),
    "digits-punctuation-suffix": lambda: many_components(
        P.Sequence([P.Whitespace(), P.Digits(individual_digits=True), P.Punctuation("merged_with_previous")]),
        N.Sequence([N.NFKD(), N.Lowercase(), N.Strip()]), D.BPEDecoder(suffix="</w>"), end_of_word_suffix="</w>"),
    "metaspace-always": lambda: many_components(
        P.Sequence([P.Metaspace(prepend_scheme="always"), P.Punctuation("contiguous")]), N.NFKC(), D.Metaspace()),
    "prefix-fuse": lambda: many_components(
        P.Sequence([P.WhitespaceSplit(), P.Split(Regex(r"[a-f]+"), "merged_with_next"),
                    P.Split("x", "removed", invert=False), P.Digits(individual_digits=False)]),
        N.Sequence([N.NFD(), N.Replace(Regex(r"\s{2,}"), " ")]), None, continuing_subword_prefix="##", fuse_unk=True),
    "never-inverted": lambda: many_components(
        P.Sequence([P.Metaspace(prepend_scheme="never", split=True), P.Split(Regex(r"\w+|\d"), "contiguous", invert=True)]),
        None, D.Sequence([D.Metaspace(prepend_scheme="never"), D.Strip("a", 1, 0)])),
}


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


def encode_file(wmtp, folder, path, *flags):
    done = subprocess.run([wmtp.binary, "tokenizer", "encode", "--tokenizer", folder, *flags, path],
                          capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


def encode_lines(wmtp, folder, lines, tmp_path, *flags):
    path = tmp_path / "lines.txt"
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return encode_file(wmtp, folder, path, "--per-line", *flags)


def encode_text(wmtp, folder, text, tmp_path, *flags):
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode())
    return encode_file(wmtp, folder, path, *flags)[0]


def decode(wmtp, folder, rows, *flags):
    lines = "".join(json.dumps({"ids": ids}) + "\n" for ids in rows)
    done = subprocess.run([wmtp.binary, "--json", "tokenizer", "decode", "--tokenizer", folder, *flags],
                          input=lines.encode(), capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["text"] for line in done.stdout.splitlines()]


def assert_rows_equal(ours, expected, inputs):
    assert len(ours) == len(expected)
    wrong = [(repr(i), a, b) for i, a, b in zip(inputs, ours, expected) if a != b]
    assert not wrong, f"{len(wrong)} rows differ, first (input, ours, reference): {wrong[:3]}"


def reference_ids(tokenizer, rows, special=False, **options):
    tokenizer.encode_special_tokens = not special
    return [e.ids for e in tokenizer.encode_batch_fast(rows, **{"add_special_tokens": False, **options})]


# ---- tokenizer.json ----

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


# ---- tokenizer.model ----

def sentencepiece_model(folder, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINING_TEXT.replace("\x00", "").split("\n")), model_writer=model, model_type="bpe",
        vocab_size=4000, normalization_rule_name="identity", hard_vocab_limit=False, max_sentence_length=100_000,
        num_threads=2, minloglevel=2, **{"character_coverage": 0.98, **options})
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.mark.parametrize("options", [
    dict(byte_fallback=True, remove_extra_whitespaces=False),
    dict(byte_fallback=False),
    dict(byte_fallback=True, user_defined_symbols=["<tool>", "def f", "  ", "한글"]),
    dict(byte_fallback=False, add_dummy_prefix=False, user_defined_symbols=["ab", "abc"], allow_whitespace_only_pieces=True),
], ids=["llama2", "no-fallback", "user-defined", "no-prefix"])
def test_sentencepiece(wmtp, tmp_path, options):
    reference = sentencepiece_model(tmp_path, **options)
    rng = random.Random(10)
    lines = mixed_text(500_000, seed=11).replace("\x00", "").split("\n")
    symbols = ["<tool>", "def f", " ", "  ", "   ", "▁", "▁▁", "한글", "ab", "abc", "abcd", "<s>", "</s>", "<unk>", "<0x41>", "\u2047"]
    lines += ["".join(rng.choices(symbols, k=rng.randint(0, 10))) for _ in range(5000)]
    lines += ["x".join(CODE_POINTS[i:i + 50]) for i in range(0, len(CODE_POINTS), 500)]
    ours = encode_lines(wmtp, tmp_path, lines, tmp_path)
    assert_rows_equal(ours, reference.encode(lines), lines)
    rows = ours + [[rng.randrange(reference.vocab_size()) for _ in range(rng.randint(0, 20))] for _ in range(3000)]
    assert_rows_equal(decode(wmtp, tmp_path, rows), reference.decode(rows), rows)
    with_bos = encode_lines(wmtp, tmp_path, lines[:50], tmp_path, "--add-special")
    assert_rows_equal(with_bos, reference.encode(lines[:50], add_bos=True), lines)


def test_sentencepiece_with_unused_pieces(wmtp, tmp_path):
    sentencepiece_model(tmp_path, byte_fallback=True)
    from sentencepiece import sentencepiece_model_pb2 as schema
    proto = schema.ModelProto.FromString((tmp_path / "tokenizer.model").read_bytes())
    rng = random.Random(12)
    for piece in proto.pieces:
        if piece.type == piece.NORMAL and len(piece.piece) > 1 and rng.random() < 0.3:
            piece.type = piece.UNUSED
    (tmp_path / "tokenizer.model").write_bytes(proto.SerializeToString())
    reference = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    lines = mixed_text(100_000, seed=13).replace("\x00", "").split("\n")
    assert_rows_equal(encode_lines(wmtp, tmp_path, lines, tmp_path), reference.encode(lines), lines)


def test_other_sentencepiece_models_are_refused_by_name(wmtp, tmp_path):
    sentencepiece_model(tmp_path)
    from sentencepiece import sentencepiece_model_pb2 as schema
    good = (tmp_path / "tokenizer.model").read_bytes()
    for change, part in [
            (lambda p: setattr(p.trainer_spec, "model_type", 1), "UNIGRAM"),
            (lambda p: setattr(p.normalizer_spec, "precompiled_charsmap", b"abc"), "precompiled_charsmap of 3 bytes"),
            (lambda p: setattr(p.trainer_spec, "treat_whitespace_as_suffix", True), "treat_whitespace_as_suffix")]:
        proto = schema.ModelProto.FromString(good)
        change(proto)
        (tmp_path / "tokenizer.model").write_bytes(proto.SerializeToString())
        assert part in wmtp.error("tokenizer", "inspect", "--tokenizer", tmp_path, code=78)["message"]


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
