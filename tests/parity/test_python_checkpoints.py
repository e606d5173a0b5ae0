"""Checkpoints of the Python project (weighted_mtp), made with torch as it makes them, and what the same weights compute
in PyTorch: critics and adapters with the base they name or are given, and its folders with SHA256SUMS."""
import hashlib
import json
import shutil

import pytest
import torch
import yaml
from model_cases import check_scores, logits_of, make_model, random_rows, score, write_rows
from safetensors.torch import save_file
from test_model_folders import meta_state
from transformers import LlamaConfig, LlamaForCausalLM

RANK, ALPHA = 4, 6.0
META = {"self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
        "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
        "mlp.down_proj": "feed_forward.w2"}


def adapt(model, targets, alpha=ALPHA):
    """Random adapters beside the projections of every block, as hooks; module -> (A, B)."""
    torch.manual_seed(11)
    adapters = {}
    for name, module in model.named_modules():
        if name.rsplit(".", 1)[-1] not in targets:
            continue
        a, b = torch.randn(RANK, module.in_features) * 0.2, torch.randn(module.out_features, RANK) * 0.2
        adapters[name] = (a, b)
        module.register_forward_hook(lambda _, inputs, out, a=a, b=b: out + inputs[0] @ a.T @ b.T * (alpha / RANK))
    return adapters


def lora_state(adapters, rename=lambda name: name):
    return {f"{rename(name)}.lora_{part}": value for name, pair in adapters.items() for part, value in zip("AB", pair)}


def save(path, **content):
    torch.save({"epoch": 1.5, "train_metrics": {"loss": 0.25}, "val_metrics": {"val_loss": 0.5}, **content}, path)
    return path


def interleaved(rows, head_dim):
    return rows.view(-1, 2, head_dim // 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape)


@pytest.fixture
def rows_file(tmp_path):
    return write_rows(tmp_path / "rows.jsonl", random_rows())


# ---- adapters ----

@pytest.mark.parametrize("names", ["model.layers", "layers", "backbone, wrapped"])
def test_hf_lora(wmtp, tmp_path, rows_file, names):
    """Names of a LlamaForCausalLM, of a LlamaModel, and of the latter in a sharded run."""
    model = make_model("llama grouped")
    model.save_pretrained(tmp_path / "base")
    adapters = adapt(model, {"q_proj", "o_proj", "down_proj"})
    rename = {"model.layers": lambda name: name,
              "layers": lambda name: name.removeprefix("model."),
              "backbone, wrapped": lambda name: "_fsdp_wrapped_module.backbone._fsdp_wrapped_module." +
              name.removeprefix("model.").replace(".self_attn", "._checkpoint_wrapped_module.self_attn")}[names]
    file = save(tmp_path / "checkpoint_best.pt", checkpoint_type="hf_lora", lora_state_dict=lora_state(adapters, rename),
                value_head_state_dict={}, lora_config={"rank": RANK, "alpha": ALPHA, "dropout": 0.05,
                                                       "target_modules": ["q_proj", "o_proj", "down_proj"]},
                base_model_path="base", config={"training": {"n_epochs": 1}})
    rows = random_rows()
    check_scores(score(wmtp, file, rows_file, cwd=tmp_path), rows, [[logits_of(model, row) for row in rows]])


def test_the_base_lies_beside_the_file_or_is_told(wmtp, tmp_path, rows_file):
    model = make_model("llama grouped")
    model.save_pretrained(tmp_path / "base")
    adapters = adapt(model, {"v_proj"})
    content = dict(checkpoint_type="hf_lora", lora_state_dict=lora_state(adapters), value_head_state_dict={},
                   lora_config={"rank": RANK, "alpha": ALPHA})
    rows = random_rows()
    beside = save(tmp_path / "a.pt", base_model_path="base", **content)
    expected = [[logits_of(model, row) for row in rows]]
    check_scores(score(wmtp, beside, rows_file), rows, expected)
    gone = save(tmp_path / "b.pt", base_model_path="storage/models/gone", **content)
    error = wmtp.error("score", "--model", gone, "--data", rows_file, code=78)
    assert "storage/models/gone" in error["message"] and "--base-model" in error["hint"]
    check_scores(score(wmtp, gone, rows_file, "--base-model", tmp_path / "base"), rows, expected)
    nothing = save(tmp_path / "c.pt", base_model_path=None, **content)
    assert "names no base model" in wmtp.error("score", "--model", nothing, "--data", rows_file, code=78)["message"]
    itself = save(tmp_path / "d.pt", base_model_path="d.pt", **content)
    assert "is no folder" in wmtp.error("score", "--model", itself, "--data", rows_file, code=78)["message"]
    wmtp.run("checkpoint", "export", nothing, "--format", "hf", "--merge-lora", "--base-model", tmp_path / "base", "--out",
             tmp_path / "merged", "--dtype", "fp32")
    check_scores(score(wmtp, tmp_path / "merged", rows_file), rows, expected)


def test_adapters_without_a_scale_have_the_project_s(wmtp, tmp_path, rows_file):
    model = make_model("llama grouped")
    model.save_pretrained(tmp_path / "base")
    adapters = adapt(model, {"q_proj"}, alpha=128.0)
    file = save(tmp_path / "a.pt", checkpoint_type="hf_lora", lora_state_dict=lora_state(adapters), lora_config=None,
                value_head_state_dict={}, base_model_path="base")
    rows = random_rows()
    check_scores(score(wmtp, file, rows_file), rows, [[logits_of(model, row) for row in rows]])


@pytest.mark.parametrize("in_both", [True, False])
def test_lora_of_a_policy(wmtp, tmp_path, rows_file, in_both):
    """Meta's names and rows; adapters of an extra head stand in both dicts (one process) or in one (sharded). Here the
    head's own weights are trained too."""
    model = make_model("llama grouped", intermediate_size=96)
    state = meta_state(model, n_future=2)
    base = tmp_path / "storage/base"
    (base / "safetensors").mkdir(parents=True)
    (base / "configs").mkdir()
    save_file(state, base / "safetensors/model.safetensors")
    (base / "configs/params.json").write_text(json.dumps({
        "dim": 32, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 96, "multiple_of": 32, "norm_eps": 1e-6,
        "n_future_tokens": 2}))
    with torch.no_grad():
        model.model.layers[2].mlp.up_proj.weight.mul_(1.5)
    adapters = adapt(model, {"q_proj", "k_proj", "v_proj", "up_proj"})
    lora, heads = {}, {"transformer.extra_heads.0.feed_forward.w3.linear.weight": model.model.layers[2].mlp.up_proj.weight}
    for name, (a, b) in adapters.items():
        _, _, index, part = name.split(".", 3)
        if part in ("self_attn.q_proj", "self_attn.k_proj"):
            b = interleaved(b, model.config.head_dim)
        group = f"transformer.layers.{index}" if int(index) < 2 else "transformer.extra_heads.0"
        made = {f"{group}.{META[part]}.lora_A": a, f"{group}.{META[part]}.lora_B": b.contiguous()}
        lora.update(made)
        heads.update(made if int(index) == 2 and in_both else {})
    file = save(tmp_path / "checkpoint_final.pt", checkpoint_type="lora", lora_state_dict=lora, extra_heads_state_dict=heads,
                value_head_state_dict={}, lora_config={"rank": RANK, "alpha": ALPHA}, td_ema_state=None,
                optimizer_state_dict={"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": 1e-4}]},
                config={"model": {"path": "storage/base"}})
    rows = random_rows()

    def heads_of(row):
        """Both heads read the trunk, which is one block here."""
        if not row:
            return [torch.zeros(0, 96)] * 2
        with torch.no_grad():
            inner, ids = model.model, torch.tensor([row])
            x = inner.embed_tokens(ids)
            rotary = inner.rotary_emb(x, torch.arange(len(row))[None])
            mask = torch.full((len(row), len(row)), -torch.inf).triu(1)[None, None]
            run = lambda layer, x: layer(x, attention_mask=mask, position_embeddings=rotary)
            x = run(inner.layers[0], x)
            return [model.lm_head(inner.norm(run(inner.layers[i], x)))[0] for i in (1, 2)]
    by_row = [heads_of(row) for row in rows]
    check_scores(score(wmtp, file, rows_file, cwd=tmp_path), rows, [[logits[head] for logits in by_row] for head in (0, 1)])


def test_misfits_of_adapters_are_listed(wmtp, tmp_path, rows_file):
    model = make_model("llama grouped")
    model.save_pretrained(tmp_path / "base")
    state = lora_state(adapt(model, {"q_proj"}))
    state.pop("model.layers.0.self_attn.q_proj.lora_B")
    state["model.layers.1.self_attn.q_proj.lora_A"] = torch.zeros(RANK, 31)
    state["model.layers.2.self_attn.q_proj.lora_B"] = torch.zeros(32, RANK, dtype=torch.int64)
    state["model.layers.9.self_attn.q_proj.lora_A"] = torch.zeros(RANK, 32)
    file = save(tmp_path / "a.pt", checkpoint_type="hf_lora", lora_state_dict=state, value_head_state_dict={},
                lora_config={"rank": RANK, "alpha": ALPHA}, base_model_path="base")
    message = wmtp.error("score", "--model", file, "--data", rows_file, code=78)["message"]
    assert "1 missing: model.layers.0.self_attn.q_proj.lora_B.weight [32, 4]" in message
    assert "1 unexpected: model.layers.9.self_attn.q_proj.lora_A.weight" in message
    assert "model.layers.1.self_attn.q_proj.lora_A.weight is [4, 31], expected [4, 32]" in message
    assert "model.layers.2.self_attn.q_proj.lora_B.weight has dtype I64" in message


# ---- critics ----

class Critic(torch.nn.Module):
    def __init__(self, backbone, head):
        super().__init__()
        self.backbone, self.value_head = backbone, head

    def forward(self, ids):
        with torch.no_grad():
            return self.value_head(self.backbone(torch.tensor([ids])).last_hidden_state)[0, :, 0]


def mlp_head(dim):
    head = torch.nn.Module()
    head.mlp = torch.nn.Sequential(torch.nn.Linear(dim, dim // 4), torch.nn.GELU(), torch.nn.Dropout(0.0),
                                   torch.nn.Linear(dim // 4, dim // 8), torch.nn.GELU(), torch.nn.Dropout(0.0),
                                   torch.nn.Linear(dim // 8, 1))
    head.forward = head.mlp.forward
    return head


def sigmoid_head(dim):
    head = torch.nn.Module()
    head.linear = torch.nn.Linear(dim, 1)
    head.forward = lambda x: torch.sigmoid(head.linear(x))
    return head


@pytest.fixture(scope="module")
def place(wmtp, tmp_path_factory):
    """The demo corpus and a base model with its tokenizer."""
    folder = tmp_path_factory.mktemp("critics")
    wmtp.run("data", "demo", "--out", folder / "demo", "--rows", 40, "--seed", 2)
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=512, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=1024, initializer_range=0.1)).eval()
    model.save_pretrained(folder / "base")
    for file in (folder / "demo").glob("tokenizer*"):
        shutil.copy(file, folder / "base")
    return folder


def settings(folder, **value_model):
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump({
        "experiment": {"name": "v", "stage": "verifiable"},
        "models": {"policy": {"path": "micro", "tokenizer_path": "demo", "init": "random"}, "value_model": value_model},
        "dataset": {"train": "demo/train.jsonl", "max_length": 96},
        "training": {"batch_size": 2, "learning_rate": 1e-3, "max_steps": 1, "value": {"source": "model"},
                     "td": {"mode": "gae"}},
        "checkpoint": {"save_final": False, "save_best": False, "export_on_finish": "none"},
        "runtime": {"device": "cpu", "cache_dir": "cache", "threads": 1}}))
    return path


def check_values(wmtp, folder, critic, run, **value_model):
    """One step of verifiable: the values of the tokens it shows are the critic's."""
    config = settings(folder, **value_model)
    wmtp.run("train", "--config", config, "--run-dir", run, cwd=folder)
    samples = [json.loads(line) for line in (folder / run / "samples.jsonl").open()]
    samples = [sample for sample in samples if sample["step"] == 0]
    sequences = wmtp.json("data", "inspect", "--config", config, "--step", 0, cwd=folder)["sequences"]
    assert 0 < len(samples) <= len(sequences)
    seen = []
    for sample, sequence in zip(samples, sequences):
        assert len(sample["tokens"]) == len(sequence["ids"])
        expected = critic(sequence["ids"])
        for token, value in zip(sample["tokens"], expected.tolist()):
            if token["v"] is not None:
                assert token["v"] == pytest.approx(value, rel=1e-4, abs=1e-5)
                seen.append(value)
    assert len(seen) > 10 and max(seen) - min(seen) > 0.01


def backbone_of(folder, seed):
    """Not the base's own weights, so that taking those would show."""
    model = LlamaForCausalLM.from_pretrained(folder / "base").model.eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def test_a_full_critic_with_the_base_it_is_given(wmtp, place):
    critic = Critic(backbone_of(place, 3), mlp_head(32))
    state = critic.state_dict()
    save(place / "full.pt", checkpoint_type="full",
         backbone_state_dict={k.replace("backbone.", ""): v for k, v in state.items() if "backbone" in k},
         value_head_state_dict={k.replace("value_head.", ""): v for k, v in state.items() if "value_head" in k},
         optimizer_state_dict={"state": {}, "param_groups": []},
         config={"models": {"value_model": {"path": "storage/models/elsewhere"}}, "training": {"value_head_type": "mlp"}})
    check_values(wmtp, place, critic, "full", checkpoint_path="full.pt", base_model_path="base")


def test_a_full_critic_with_the_base_it_names(wmtp, place):
    critic = Critic(backbone_of(place, 4), sigmoid_head(32))
    save(place / "named.pt", checkpoint_type="full", backbone_state_dict=critic.backbone.state_dict(),
         value_head_state_dict=critic.value_head.state_dict(),
         config={"models": {"value_model": {"path": "base"}}, "training": {"value_head_type": "sigmoid"}})
    check_values(wmtp, place, critic, "named", checkpoint_path="named.pt")


def test_a_critic_of_adapters(wmtp, place):
    backbone = LlamaForCausalLM.from_pretrained(place / "base").model.eval()
    adapters = adapt(backbone, {"q_proj", "k_proj", "gate_proj"})
    torch.manual_seed(8)
    critic = Critic(backbone, mlp_head(32))
    save(place / "lora.pt", checkpoint_type="hf_lora", lora_state_dict=lora_state(adapters),
         value_head_state_dict=critic.value_head.state_dict(), base_model_path="storage/models/elsewhere",
         lora_config={"rank": RANK, "alpha": ALPHA, "dropout": 0.05, "target_modules": ["q_proj", "k_proj", "gate_proj"]},
         config={"training": {"value_head_type": "mlp"}})
    check_values(wmtp, place, critic, "lora", checkpoint_path="lora.pt", base_model_path="base")


def test_a_full_critic_must_be_whole(wmtp, place):
    """The base stands in for the unembedding, for nothing else; integers are no weights."""
    critic = Critic(backbone_of(place, 5), mlp_head(32))
    backbone = critic.backbone.state_dict()
    backbone.pop("layers.1.mlp.up_proj.weight")
    backbone["norm.weight"] = torch.ones(32, dtype=torch.int64)
    save(place / "part.pt", checkpoint_type="full", backbone_state_dict=backbone,
         value_head_state_dict=critic.value_head.state_dict(), config={})
    config = settings(place, checkpoint_path="part.pt", base_model_path="base")
    message = wmtp.error("train", "--config", config, "--run-dir", "part", code=78, cwd=place)["message"]
    assert "1 missing: model.layers.1.mlp.up_proj.weight [48, 32]" in message
    assert "model.norm.weight has dtype I64" in message


# ---- SHA256SUMS ----

@pytest.fixture
def python_layout(tmp_path):
    model = make_model("llama grouped")
    folder = tmp_path / "model"
    (folder / "safetensors").mkdir(parents=True)
    (folder / "configs").mkdir()
    save_file(dict(model.state_dict()), folder / "safetensors/model.safetensors", metadata={"format": "pt"})
    model.config.save_pretrained(folder / "configs")
    return folder


def sums(folder, **changed):
    path = folder / "safetensors"
    found = {"model.safetensors": hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest(), **changed}
    (path / "SHA256SUMS").write_text("".join(f"{value}  {name}\n" for name, value in found.items()))
    return found


def test_right_and_absent_sums(wmtp, python_layout):
    wmtp.run("checkpoint", "inspect", python_layout)
    sums(python_layout)
    wmtp.run("checkpoint", "inspect", python_layout)


def test_a_wrong_sum_is_refused_with_both(wmtp, python_layout):
    right = sums(python_layout)["model.safetensors"]
    file = python_layout / "safetensors/model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    message = wmtp.error("checkpoint", "inspect", python_layout, code=65)["message"]
    assert str(file) in message and right in message and hashlib.sha256(data).hexdigest() in message


def test_a_listed_file_that_is_missing_is_refused(wmtp, python_layout):
    sums(python_layout, **{"model-00002.safetensors": "0" * 64})
    message = wmtp.error("checkpoint", "inspect", python_layout, code=65)["message"]
    assert "model-00002.safetensors" in message and "SHA256SUMS" in message


@pytest.mark.parametrize("line, fact", [("deadbeef  model.safetensors", "SHA256SUMS:1: no line of sha256sum"),
                                        (f"{'0' * 64}  ../configs/config.json", ".."),
                                        (f"{'0' * 64}  /etc/hostname", "/etc/hostname")])
def test_sums_that_are_none(wmtp, python_layout, line, fact):
    (python_layout / "safetensors/SHA256SUMS").write_text(line + "\n")
    assert fact in wmtp.error("checkpoint", "inspect", python_layout, code=65)["message"]
