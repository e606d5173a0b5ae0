"""Small random models in PyTorch, and scores of the program held to theirs."""
import importlib.util
import json
import sys
from pathlib import Path

import torch
from tolerance import near, through_a_model, within
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

ROOT = Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "bench"))
import anchor_fsdp2 as peer  # noqa: E402

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


def close_in_norm(ours, expected, tolerance=through_a_model()):
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        within(((ours[name] - value).norm() / value.norm()).item(), tolerance, name)


def peer_names(shape):
    spec = importlib.util.spec_from_file_location("gpu_parity", ROOT / "tests/gpu/parity.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.mtp_names(shape)


SHAPE = peer.Shape(dim=32, blocks=5, heads=4, kv=2, head_dim=8, ffn=48, vocab=96, n_future=3, theta=1e4, eps=1e-5)


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
