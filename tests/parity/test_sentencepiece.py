"""tokenizer.model: token for token what the `sentencepiece` package does, on models trained here."""
import random

import pytest
import sentencepiece
from tokenizer_cases import CODE_POINTS, assert_rows_equal, decode, encode_lines, mixed_text, sentencepiece_model


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
