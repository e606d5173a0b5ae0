"""Checkpoints of tiny runs for those who read them: exports, Python's readers, scores, runs that start from one."""
import json
import re
import shutil

import pytest
from tiny_runs import TinyRuns

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

HEAD_DIM = 16  # of tiny_runs.py


def exported(wmtp, source, out, *flags):
    wmtp.run("checkpoint", "export", source, "--format", "hf", "--dtype", "fp32", "--out", out, *flags)
    tensors = {}
    for path in out.glob("*.safetensors"):
        tensors.update(safetensors_torch.load_file(path))
    return tensors


def read_with_dcp(folder, names):
    from torch.distributed.checkpoint import HuggingFaceStorageReader, load
    reader = HuggingFaceStorageReader(str(folder))
    state = {name: torch.empty(tuple(m.size), dtype=m.properties.dtype)
             for name, m in reader.read_metadata().state_dict_metadata.items()}
    assert set(names) <= set(state)
    load(state, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
    return state


def read_with_safetensors(folder, shapes):
    """The pieces put together by the offsets in the files' own metadata."""
    whole = {name: torch.full(shape, float("nan")) for name, shape in shapes.items()}
    for path in folder.glob("*.safetensors"):
        with safetensors_torch.safe_open(path, framework="pt") as file:
            info = json.loads(file.metadata()["DCP_SHARDING_INFO"])
            for name in file.keys():
                piece = file.get_tensor(name)
                at = tuple(slice(o, o + n) for o, n in zip(info[name]["saved_offsets"], piece.shape))
                whole[name][at] = piece
    return whole


def score(wmtp, model, runs):
    rows = runs.folder / "scored.jsonl"
    rows.write_text("".join((runs.folder / "data/validation.jsonl").read_text().splitlines(True)[:3]))
    lines = wmtp.run("--json", "score", "--model", model, "--data", rows, "--device", "cpu").stdout.splitlines()
    return json.loads(lines[-1])["nll_mean"]


def validations(done):
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [line["loss"] for line in lines if line["type"] == "eval"]


def first_validation(runs, name, path):
    """Of a run that starts from that model; None: from drawn weights, as the configuration has it."""
    model = {} if path is None else {"models__policy__path": str(path), "models__policy__init": "pretrained",
                                     "models__policy__params": {}}
    return validations(runs.run(name, training__eval_at_start=True, training__max_steps=1, **model))[0]


def meta_folder(tensors, folder):
    """The tensors of an export with --keep-mtp as Meta writes them: other names, rows of q and k interleaved."""
    names = {"self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
             "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
             "mlp.down_proj": "feed_forward.w2", "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm",
             "model.embed_tokens": "tok_embeddings", "model.norm": "norm", "lm_head": "output"}
    state = {}
    for name, value in tensors.items():
        group, _, part = re.fullmatch(r"(?:model\.((layers|extra_heads)\.\d+)\.)?(.+)\.weight", name).groups()
        if part in ("self_attn.q_proj", "self_attn.k_proj"):
            value = value.view(-1, 2, HEAD_DIM // 2, value.shape[1]).transpose(1, 2).reshape(value.shape)
        state[f"{group}.{names[part]}.weight" if group else f"{names[part]}.weight"] = value
    folder.mkdir()
    torch.save(state, folder / "consolidated.00.pth")
    # int(0.5 * 85) up to the next multiple of 48: the width of the tiny model.
    (folder / "params.json").write_text(json.dumps({
        "dim": 32, "n_layers": 5, "n_heads": 2, "n_kv_heads": 1, "vocab_size": -1, "multiple_of": 48,
        "ffn_dim_multiplier": 0.5, "norm_eps": 1e-5, "n_future_tokens": 4}))


class BasedRuns:
    """Adapters upon a model folder that can be moved and changed: `whole` saves all, `small` the adapters alone."""

    def __init__(self, wmtp, folder, full):
        self.wmtp, self.base = wmtp, folder / "base"
        exported(wmtp, full.checkpoint("run", 20), self.base, "--keep-mtp")
        self.runs = TinyRuns(wmtp, folder, steps=20, every=10)
        for name in ("whole", "small"):
            self.runs.run(name, **self.keys(self.base, name))

    def keys(self, base, origin):
        return {"models__policy__path": str(base), "models__policy__init": "pretrained", "models__policy__params": {},
                "checkpoint__save_lora_only": origin == "small"}

    def go_on(self, name, base, origin, **options):
        """Step 10 of `origin` in a new folder, with that base."""
        self.runs.save_dir(name).mkdir(parents=True)
        shutil.copytree(self.runs.checkpoint(origin, 10), self.runs.checkpoint(name, 10))
        return self.runs.run(name, **self.keys(base, origin), **options)

    def fingerprint(self, origin):
        return json.loads((self.runs.checkpoint(origin, 10) / "manifest.json").read_text())["fingerprints"]["base"]
