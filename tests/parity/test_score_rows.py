"""`wmtp score` on rows: which tokens are targets, how text is cut, bad rows, ranks that share them."""
import json

import pytest
from model_cases import check_scores, logits_of, make_model, nll_of, random_rows, score, write_rows
from test_model_folders import edit_config
from tolerance import near


@pytest.fixture
def with_tokenizer(tmp_path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["</s>"])
    model = make_model("llama grouped", vocab_size=260)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save(str(tmp_path / "model/tokenizer.json"))
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    return tmp_path / "model", model, tokenizer


def test_text_is_cut_into_rows(wmtp, tmp_path, with_tokenizer):
    folder, model, tokenizer = with_tokenizer
    text = "Ein Fuß, two feet.\n" * 12
    (tmp_path / "book.txt").write_text(text)
    ids = tokenizer.encode(text).ids + [256]
    rows = [ids[i:i + 128] for i in range(0, len(ids), 128)]
    check_scores(score(wmtp, folder, tmp_path / "book.txt"), rows, [[logits_of(model, row) for row in rows]])


def test_only_responses_of_instructions_are_targets(wmtp, tmp_path, with_tokenizer):
    folder, model, tokenizer = with_tokenizer
    (tmp_path / "train.jsonl").write_text(json.dumps({"instruction": "a", "input": "", "output": "xyz"}) + "\n")
    edit_config(folder, max_position_embeddings=1024)
    line, result = score(wmtp, folder, tmp_path / "train.jsonl")
    row = line["ids"]
    assert row[-4:] == tokenizer.encode("xyz").ids + [256] and result["tokens"] == 4
    targets = [i for i, value in enumerate(line["nll"][0]) if value is not None]
    assert targets == list(range(len(row) - 5, len(row) - 1))
    expected = nll_of(logits_of(model, row), row)[-4:]
    near(line["nll"][0][-5:-1], expected, abs=1e-4)


BAD_ROWS = {
    '{"ids": [1, 96]}': "ids[1] is 96, outside the model's vocabulary of 96",
    '{"ids": [-1]}': "ids[0] is -1",
    '{"ids": [18446744073709551615]}': "ids[0] is 18446744073709551615",
    '{"ids": [1.5]}': "ids[0] is no integer",
    '{"ids": "12"}': 'no list "ids"',
    '{"text": "x"}': 'no list "ids"',
    "[1, 2]": 'no list "ids"',
    '{"ids": [1, 2]': "rows.jsonl:3",
    '{"ids": [1], "ids": [2]}': "ids",
}


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_a_bad_row_is_named_and_leaves_no_file(wmtp, llama, tmp_path, bad):
    (tmp_path / "rows.jsonl").write_text('{"ids": [1, 2]}\n\n' + bad + "\n")
    message = wmtp.error("score", "--model", llama[0], "--data", tmp_path / "rows.jsonl", "--out", tmp_path / "out.jsonl",
                         "--device", "cpu", code=65)["message"]
    assert f"{tmp_path}/rows.jsonl:3" in message and BAD_ROWS[bad] in message
    assert not list(tmp_path.glob("*out.jsonl*"))


def test_ranks_share_the_rows_and_the_order_stays(wmtp, llama, tmp_path):
    folder, model = llama
    rows = random_rows([100] * 70 + [3, 1000, 5])  # several micro-batches a rank; one row longer than a micro-batch's rest
    data = write_rows(tmp_path / "many.jsonl", rows)
    wmtp.run("launch", "--nproc", "2", "--log-dir", tmp_path / "logs", "--", "score", "--model", folder, "--data", data,
             "--device", "cpu", "--out", tmp_path / "out.jsonl", timeout=300)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    check_scores(lines, rows, [[logits_of(model, row) for row in rows]])
    with open(data, "a") as file:
        file.write('{"ids": [96]}\n')
    done = wmtp.run("launch", "--nproc", "2", "--log-dir", tmp_path / "logs2", "--", "score", "--model", folder, "--data", data,
                    "--device", "cpu", "--out", tmp_path / "bad.jsonl", check=False, timeout=300)
    assert done.returncode == 65 and "many.jsonl:74" in done.stderr and not list(tmp_path.glob("*bad.jsonl*"))


def test_a_preset_has_weights_but_no_tokenizer(wmtp, tmp_path, rows_file):
    lines = score(wmtp, "micro", rows_file)
    assert len(lines[0]["nll"]) == 4 and abs(lines[-1]["nll_mean"] - 6.25) < 0.2  # near ln 512
    assert lines == score(wmtp, "micro", rows_file)
    (tmp_path / "a.txt").write_text("text")
    assert "no tokenizer" in wmtp.error("score", "--model", "micro", "--data", tmp_path / "a.txt", code=78)["message"]
