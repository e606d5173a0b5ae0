"""Added tokens beside white space and in decoded text, token for token what the `tokenizers` package does."""
import json
import random

import pytest
import tokenizer_cases
from tokenizer_cases import MAKERS, assert_rows_equal, decode, encode_lines, mixed_text, reference_ids
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

# White space, and what looks like it: to Python (the four separators), to old Unicode, or to nobody.
SPACES = [chr(c) for c in range(1, 0x3001) if c != 10 and (chr(c).isspace() or c in (0x180E, 0x200B, 0x2060, 0x2800))]


def strip_tokens(normalizer, pre_tokenizer):
    alphabet = sorted({*pre_tokenizers.ByteLevel.alphabet(), *SPACES, "▁", "a"})
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(["<unk>", *alphabet])}, merges=[], unk_token="<unk>"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.add_tokens([AddedToken("<L>", lstrip=True, normalized=False), AddedToken("<R>", rstrip=True, normalized=False),
                          AddedToken("<B>", lstrip=True, rstrip=True, normalized=True),
                          AddedToken("<W>", lstrip=True, rstrip=True, single_word=True)])
    tokenizer.add_special_tokens([AddedToken("<S>", lstrip=True, rstrip=True), AddedToken("<T>", rstrip=True, normalized=True)])
    return tokenizer


@pytest.mark.parametrize("normalizer, pre_tokenizer", [
    (None, pre_tokenizers.ByteLevel(add_prefix_space=False)),
    (normalizers.NFKC(), pre_tokenizers.ByteLevel()),
    (normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None),
    (None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
], ids=["bytes", "nfkc", "llama2", "metaspace"])
def test_white_space_beside_added_tokens(wmtp, tmp_path, normalizer, pre_tokenizer):
    tokenizer = strip_tokens(normalizer, pre_tokenizer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    names = ["<L>", "<R>", "<B>", "<W>", "<S>", "<T>"]
    rng = random.Random(3)
    rows = [row for name in names for space in SPACES for row in (f"a{space}{name}{space}a", f"{space} {name} {space}{name}")]
    rows += ["".join(rng.choices([*names * 5, *SPACES, "a", "\u00a0"], k=rng.randint(1, 9))) for _ in range(500)]
    for flags in ([], ["--allow-special"]):
        assert_rows_equal(encode_lines(wmtp, tmp_path, rows, tmp_path, *flags), reference_ids(tokenizer, rows, bool(flags)), rows)


@pytest.fixture(scope="module")
def llama2():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_cases, "TRAINING_TEXT", mixed_text(30_000, seed=22))
        return MAKERS["llama2-older"]().to_str()


@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize("normalized", [True, False])
def test_special_tokens_in_decoded_text(wmtp, llama2, tmp_path, newer, normalized):
    """Older Llama 2 files have their special tokens normalised: "<unk>" is looked for, and shown, as "▁<unk>"."""
    state = json.loads(llama2)
    for token in state["added_tokens"]:
        token["normalized"] = normalized
    if newer:
        state["normalizer"] = None
        state["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.add_tokens([AddedToken("<tool>"), AddedToken("<Raw>", normalized=False)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    rng = random.Random(4)
    pieces = ["<unk>", "<s>", "</s>", "<tool>", "<Raw>", " ", "  ", "narrow", " Ruth", "a", "▁", "é", "한글", "-"]
    rows = ["narrow <unk> Ruth", "<unk> a", "a<unk>b", *("".join(rng.choices(pieces, k=rng.randint(1, 9))) for _ in range(500))]
    ids = reference_ids(tokenizer, rows, special=True)
    assert_rows_equal(encode_lines(wmtp, tmp_path, rows, tmp_path, "--allow-special"), ids, rows)
    if normalized and not newer:
        assert tokenizer.decode(ids[0], skip_special_tokens=False) == "narrow <unk> Ruth"
    for skip in (True, False):
        ours = decode(wmtp, tmp_path, ids, *(["--skip-special"] if skip else []))
        assert_rows_equal(ours, tokenizer.decode_batch(ids, skip_special_tokens=skip), rows)


def test_a_token_that_reads_like_a_special_one_is_skipped(wmtp, tmp_path):
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    tokenizer.normalizer, tokenizer.decoder = normalizers.Lowercase(), decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("<E>", normalized=True)])
    tokenizer.add_tokens([AddedToken("<S>", normalized=True)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    rows = [[0, 2, 3, 4, 1]]
    for skip in (True, False):
        ours = decode(wmtp, tmp_path, rows, *(["--skip-special"] if skip else []))
        assert ours == tokenizer.decode_batch(rows, skip_special_tokens=skip)
