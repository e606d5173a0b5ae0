"""Tokenizers trained here on mixed text, with the reference's way and ours to encode and decode with them."""
import io
import json
import random
import subprocess

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
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


# ---- encoding and decoding ----

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


def sentencepiece_model(folder, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINING_TEXT.replace("\x00", "").split("\n")), model_writer=model, model_type="bpe",
        vocab_size=4000, normalization_rule_name="identity", hard_vocab_limit=False, max_sentence_length=100_000,
        num_threads=2, minloglevel=2, **{"character_coverage": 0.98, **options})
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
