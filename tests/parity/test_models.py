"""Models against transformers and PyTorch: losses of every token, logits, gradients, and what is refused.

Random models are saved as folders, `wmtp score` and wmtp_model_probe read them, and PyTorch computes the same in fp32.
"""
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from test_model_folders import edit_config, edit_weights, meta_state
from tolerance import near, through_a_model, within
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

ROOT = Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "bench"))
import peer_fsdp2 as peer  # noqa: E402

SIZES = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.15)
LLAMA3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
CASES = {
    "llama grouped": (LlamaForCausalLM, LlamaConfig, {}),
    "llama heads alone": (LlamaForCausalLM, LlamaConfig, dict(num_key_value_heads=4)),
    "llama wide heads": (LlamaForCausalLM, LlamaConfig, dict(head_dim=16)),
    "llama tied": (LlamaForCausalLM, LlamaConfig, dict(tie_word_embeddings=True)),
    "llama scaled": (LlamaForCausalLM, LlamaConfig, dict(head_dim=16, rope_parameters=LLAMA3)),
    "qwen3 tied": (Qwen3ForCausalLM, Qwen3Config,
                   dict(head_dim=16, tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, dict(head_dim=8)),
}
LENGTHS = (40, 1, 7, 0, 2, 33)


def make_model(case, **changes):
    model_class, config_class, special = CASES[case]
    torch.manual_seed(7)
    model = model_class(config_class(**{**SIZES, **special, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.uniform_(0.5, 1.5)  # norms of ones would hide a missing factor
    return model


def random_rows(lengths=LENGTHS, vocab=SIZES["vocab_size"]):
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, vocab, (n,), generator=generator).tolist() for n in lengths]


def write_rows(path, rows):
    path.write_text("".join(json.dumps({"ids": row}) + "\n" for row in rows))
    return path


def as_version_4(folder):
    """config.json as transformers 4 wrote it: theta and scaling apart, torch_dtype."""
    config = json.loads((folder / "config.json").read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.46.0"
    (folder / "config.json").write_text(json.dumps(config))


def logits_of(model, row):
    with torch.no_grad():
        return model(torch.tensor([row])).logits[0].float() if row else torch.zeros(0, SIZES["vocab_size"])


def nll_of(logits, row, k=1):
    """Losses of the predictions of row[i + k], i = 0.."""
    targets = torch.tensor(row[k:], dtype=torch.long)
    return -torch.log_softmax(logits[:len(targets)].double(), -1).gather(1, targets[:, None])[:, 0]


def check_scores(lines, rows, logits_by_head, tolerance=through_a_model()):
    """`logits_by_head`: for each head, the logits of each row. Returns the worst difference over the logit scale."""
    scores, result = lines[:-1], lines[-1]
    assert [line["row"] for line in scores] == list(range(len(rows)))
    scale = max(logits.abs().max().item() for logits in logits_by_head[0] if len(logits))
    worst, total, count = 0.0, 0.0, 0
    for line, row in zip(scores, rows):
        assert line["type"] == "score" and line["ids"] == row and len(line["nll"]) == len(logits_by_head)
        for k, values in enumerate(line["nll"], 1):
            assert len(values) == len(row) and values[max(0, len(row) - k):] == [None] * min(k, len(row))
            expected = nll_of(logits_by_head[k - 1][line["row"]], row, k)
            ours = torch.tensor(values[:max(0, len(row) - k)], dtype=torch.double)
            worst = max([worst, *((ours - expected).abs() / scale).tolist()])
            if k == 1:
                total, count = total + expected.sum().item(), count + len(expected)
    within(worst, tolerance)
    assert result["type"] == "result" and result["tokens"] == count and "ts" not in result
    near(result["nll_mean"], total / count, abs=tolerance * scale)
    near(result["perplexity"], torch.tensor(total / count).exp().item(), rel=tolerance * scale)
    return worst


def score(wmtp, folder, data, *flags, **options):
    return [json.loads(line) for line in
            wmtp.run("score", "--model", folder, "--data", data, "--device", "cpu", *flags, **options).stdout.splitlines()]


@pytest.fixture
def rows_file(tmp_path):
    return write_rows(tmp_path / "rows.jsonl", random_rows())


@pytest.fixture
def llama(tmp_path):
    model = make_model("llama grouped")
    model.save_pretrained(tmp_path / "llama")
    return tmp_path / "llama", model


@pytest.fixture
def probe(wmtp, tmp_path):
    """Runs wmtp_model_probe on a folder: losses, gradients by name, logits by head."""
    def run(folder, rows):
        (tmp_path / "ids.json").write_text(json.dumps(rows))
        out = tmp_path / "probe"
        done = subprocess.run([wmtp.binary.parent / "wmtp_model_probe", "--model", folder, "--ids", tmp_path / "ids.json", "--out", out,
                               "--logits"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads((out / "probe.json").read_text()), load_file(out / "grads.safetensors"), \
            load_file(out / "logits.safetensors")
    return run


# ---- the numbers ----

@pytest.mark.parametrize("version", [5, 4])
@pytest.mark.parametrize("case", CASES)
def test_token_losses(wmtp, tmp_path, rows_file, case, version):
    model = make_model(case)
    model.save_pretrained(tmp_path / "model")
    if version == 4:
        as_version_4(tmp_path / "model")
    rows = random_rows()
    check_scores(score(wmtp, tmp_path / "model", rows_file), rows, [[logits_of(model, row) for row in rows]])


def close_in_norm(ours, expected, tolerance=through_a_model()):
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        within(((ours[name] - value).norm() / value.norm()).item(), tolerance, name)


@pytest.mark.parametrize("case", CASES)
def test_logits_and_gradients(tmp_path, probe, case):
    model = make_model(case)
    model.save_pretrained(tmp_path / "model")
    rows = random_rows((40, 7, 2, 33))
    report, grads, logits = probe(tmp_path / "model", rows)
    expected = [model(torch.tensor([row])).logits[0] for row in rows]
    flat = torch.cat([value[:-1] for value in expected])
    within((logits["head0"] - flat).abs().max(), through_a_model() * flat.abs().max())
    loss = torch.nn.functional.cross_entropy(flat, torch.tensor([token for row in rows for token in row[1:]]))
    near(report["loss"], loss.item(), rel=through_a_model())
    loss.backward()
    close_in_norm(grads, {name: parameter.grad for name, parameter in model.named_parameters()})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("files", ["one file", "sharded", "the file itself"])
def test_how_weights_are_stored(wmtp, tmp_path, rows_file, files, dtype):
    model = make_model("qwen3 tied").to(dtype)
    folder = tmp_path / "model"
    model.save_pretrained(folder, **(dict(max_shard_size="20KB") if files == "sharded" else {}))
    assert (folder / "model.safetensors.index.json").exists() == (files == "sharded")
    name = folder / "model.safetensors" if files == "the file itself" else folder
    model, rows = type(model).from_pretrained(folder, dtype=torch.float32), random_rows()
    check_scores(score(wmtp, name, rows_file), rows, [[logits_of(model, row) for row in rows]])


def test_meta_folder(wmtp, tmp_path, rows_file):
    model = make_model("llama grouped", intermediate_size=96)
    torch.save(meta_state(model), tmp_path / "consolidated.00.pth")
    (tmp_path / "params.json").write_text(json.dumps({
        "dim": 32, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 96, "multiple_of": 32, "norm_eps": 1e-6}))
    rows = random_rows()
    check_scores(score(wmtp, tmp_path, rows_file), rows, [[logits_of(model, row) for row in rows]])


# ---- several heads ----

def peer_names(shape):
    spec = importlib.util.spec_from_file_location("gpu_parity", ROOT / "tests/gpu/parity.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.mtp_names(shape)


SHAPE = peer.Shape(dim=32, blocks=5, heads=4, kv=2, head_dim=8, ffn=48, vocab=96, n_future=3, theta=1e4, eps=1e-5)


@pytest.fixture
def mtp(tmp_path):
    """The peer's model, in an export's layout: a plain Llama and the extra heads in a file of their own."""
    torch.manual_seed(5)
    model = peer.MtpModel(SHAPE, False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.15) if parameter.dim() > 1 else parameter.uniform_(0.5, 1.5)
    names = peer_names(SHAPE)
    state = {names[name]: value.clone() for name, value in model.state_dict().items()}
    folder = tmp_path / "mtp"
    folder.mkdir()
    for file, extra in (("model.safetensors", False), ("mtp_heads.safetensors", True)):
        save_file({name: value for name, value in state.items() if ("extra_heads" in name) == extra}, folder / file,
                  metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "max_position_embeddings": 128,
        "rope_theta": 1e4, "wmtp": {"n_future_tokens": 3, "mtp_file": "mtp_heads.safetensors"}}))
    return folder, model


def rotation(length):
    angles = torch.outer(torch.arange(length).float(),
                         1.0 / SHAPE.theta ** (torch.arange(0, SHAPE.head_dim, 2).float() / SHAPE.head_dim))
    return angles.cos(), angles.sin()


def mtp_logits(model, row):
    """[head] -> logits of the row."""
    cos, sin = rotation(len(row))
    with torch.no_grad():
        x = model.embedding(torch.tensor([row], dtype=torch.long))
        for block in model.trunk:
            x = block(x, cos, sin)
        return [model.unembedding(model.norm(head(x, cos, sin)))[0] for head in model.heads]


def test_losses_of_every_head(wmtp, mtp, rows_file):
    folder, model = mtp
    rows = random_rows()
    by_row = [mtp_logits(model, row) if row else [torch.zeros(0, 96)] * 3 for row in rows]
    by_head = [[logits[head] for logits in by_row] for head in range(3)]
    lines = score(wmtp, folder, rows_file)
    check_scores(lines, rows, by_head)
    fewer = score(wmtp, folder, rows_file, "--heads", "2")
    assert [line["nll"] for line in fewer[:-1]] == [line["nll"][:2] for line in lines[:-1]]
    assert "--heads 4" in wmtp.error("score", "--model", folder, "--data", rows_file, "--heads", "4", code=78)["message"]


def test_gradients_of_every_head(mtp, probe):
    folder, model = mtp
    tokens = torch.tensor(random_rows((24, 24)))
    report, grads, logits = probe(folder, tokens.tolist())
    loss = model(tokens, tokens, *rotation(24))
    bound = through_a_model(SHAPE.blocks)
    near(report["loss"], loss.item(), rel=bound)
    for head in range(3):
        expected = torch.cat([mtp_logits(model, row)[head][:23 - head] for row in tokens.tolist()])
        within((logits[f"head{head}"] - expected).abs().max(), bound * expected.abs().max())
    loss.backward()
    names = peer_names(SHAPE)
    close_in_norm(grads, {names[name]: parameter.grad for name, parameter in model.named_parameters()})


def test_heads_do_not_touch_each_other(wmtp, mtp, rows_file):
    folder, _ = mtp
    before = score(wmtp, folder, rows_file)
    heads = load_file(folder / "mtp_heads.safetensors")
    save_file({name: value * (1.5 if ".extra_heads.0." in name else 1) for name, value in heads.items()},
              folder / "mtp_heads.safetensors", metadata={"format": "pt"})
    after = score(wmtp, folder, rows_file)
    assert before[0]["nll"][1] != after[0]["nll"][1]
    assert [[line["nll"][0], line["nll"][2]] for line in before[:-1]] == \
        [[line["nll"][0], line["nll"][2]] for line in after[:-1]]


def test_without_its_heads_file_an_mtp_folder_is_refused(wmtp, mtp, rows_file):
    folder, _ = mtp
    (folder / "mtp_heads.safetensors").unlink()
    assert "mtp_heads.safetensors" in \
        wmtp.error("score", "--model", folder, "--data", rows_file, "--device", "cpu", code=78)["message"]


# ---- rows ----

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


# ---- what is refused ----

def refused(wmtp, folder, rows_file, code):
    return wmtp.error("score", "--model", folder, "--data", rows_file, "--device", "cpu", "--out", folder / "out.jsonl",
                      code=code)["message"]


def test_all_misfits_are_listed(wmtp, llama, rows_file):
    def change(tensors):
        tensors.pop("model.layers.1.mlp.up_proj.weight")
        tensors["model.norm.weight"] = torch.zeros(31)
        tensors["stranger"] = torch.zeros(2, 3)
    edit_weights(llama[0], change)
    message = refused(wmtp, llama[0], rows_file, 78)
    for name in ("model.layers.1.mlp.up_proj.weight", "model.norm.weight is [31], expected [32]", "stranger [2, 3]"):
        assert name in message
    assert not list(llama[0].glob("*out.jsonl*"))


def test_damaged_files(wmtp, llama, rows_file):
    folder, _ = llama
    whole = (folder / "model.safetensors").read_bytes()
    for size in (4, 200, len(whole) - 1):
        (folder / "model.safetensors").write_bytes(whole[:size])
        assert "model.safetensors" in refused(wmtp, folder, rows_file, 65)
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"model.norm.weight": "../outside.safetensors"}}))
    refused(wmtp, folder, rows_file, 65)


REFUSED = {
    "model_type": dict(model_type="mamba"),
    "yarn": dict(rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=2.0)),
    "attention_bias": dict(attention_bias=True),
    "quantization_config": dict(quantization_config={"bits": 4}),
    "expected [64, 32]": dict(vocab_size=64),
}


@pytest.mark.parametrize("word", REFUSED)
def test_unsupported_configs_are_refused_by_name(wmtp, llama, rows_file, word):
    edit_config(llama[0], **REFUSED[word])
    assert word in refused(wmtp, llama[0], rows_file, 78)


def test_more_blocks_in_the_config_than_in_the_file(wmtp, llama, rows_file):
    edit_config(llama[0], num_hidden_layers=4)
    assert "9 missing: model.layers.3." in refused(wmtp, llama[0], rows_file, 78)


def test_infinite_weights_are_no_score(wmtp, llama, rows_file):
    edit_weights(llama[0], lambda tensors: tensors["model.norm.weight"].fill_(float("inf")))
    assert "row 0" in refused(wmtp, llama[0], rows_file, 17)
