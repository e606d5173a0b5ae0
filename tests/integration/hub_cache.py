"""A cache of the Hugging Face Hub as `hf download` leaves it, with a small model under Qwen's name and data sets as folders."""
import hashlib
import json

import pyarrow
import pyarrow.parquet
import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

REVISION = "c1899de289a04d12100db370d81485cdf75e47ca"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# How Qwen's tokenizer.json splits text.
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# The fields of Qwen/Qwen3-0.6B's config.json; smaller are hidden_size, intermediate_size, head_dim, vocab_size and the counts.
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "head_dim": 16,
    "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 64,
    "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 4,
    "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000,
    "sliding_window": None, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
    "use_cache": True, "use_sliding_window": False,
}


def small_tokenizer(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def small_weights(config):
    """bf16, and the unembedding in the file although it is tied, as in Qwen's."""
    generator = torch.Generator().manual_seed(0)

    def draw(rows, columns):
        return (torch.randn(rows, columns, generator=generator) * config["initializer_range"]).bfloat16()

    d, f, e = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * e, config["num_key_value_heads"] * e
    state = {"model.embed_tokens.weight": draw(config["vocab_size"], d), "model.norm.weight": torch.ones(d).bfloat16()}
    state["lm_head.weight"] = state["model.embed_tokens.weight"].clone()
    shapes = {"self_attn.q_proj": (q, d), "self_attn.k_proj": (kv, d), "self_attn.v_proj": (kv, d), "self_attn.o_proj": (d, q),
              "mlp.gate_proj": (f, d), "mlp.up_proj": (f, d), "mlp.down_proj": (d, f)}
    norms = {"input_layernorm": d, "post_attention_layernorm": d, "self_attn.q_norm": e, "self_attn.k_norm": e}
    for layer in range(config["num_hidden_layers"]):
        for name, shape in shapes.items():
            state[f"model.layers.{layer}.{name}.weight"] = draw(*shape)
        for name, size in norms.items():
            state[f"model.layers.{layer}.{name}.weight"] = torch.ones(size).bfloat16()
    return state


def add_small_qwen3(hub, text):
    """models--Qwen--Qwen3-0.6B in the cache `hub`: blobs, links to them in the snapshot, the revision in refs/main."""
    repository = hub / "models--Qwen--Qwen3-0.6B"
    snapshot, blobs = repository / "snapshots" / REVISION, repository / "blobs"
    for folder in (snapshot, blobs, repository / "refs"):
        folder.mkdir(parents=True)
    (repository / "refs/main").write_text(REVISION)
    tokenizer = small_tokenizer(text)
    bos, _, eos = map(tokenizer.token_to_id, SPECIAL)
    config = {**CONFIG, "vocab_size": tokenizer.get_vocab_size(), "bos_token_id": bos, "eos_token_id": eos}
    tokenizer.save(str(snapshot / "tokenizer.json"))
    (snapshot / "config.json").write_text(json.dumps(config))
    (snapshot / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, "bos_token": None, "eos_token": SPECIAL[2],
         "pad_token": SPECIAL[0], "unk_token": None, "model_max_length": 131072}))
    (snapshot / "generation_config.json").write_text(json.dumps(
        {"bos_token_id": bos, "do_sample": True, "eos_token_id": [eos, bos], "pad_token_id": bos, "temperature": 0.6}))
    save_file(small_weights(config), snapshot / "model.safetensors", metadata={"format": "pt"})
    for file in list(snapshot.iterdir()):
        blob = blobs / hashlib.sha256(file.read_bytes()).hexdigest()
        file.rename(blob)
        file.symlink_to(f"../../blobs/{blob.name}")
    return snapshot


def add_data_set(folder, name, splits, config=None):
    """The data set `name` as a folder that `load_dataset(name, config)` takes before it asks the Hub."""
    files = folder / name / (config or "data")
    files.mkdir(parents=True)
    for split, rows in splits.items():
        pyarrow.parquet.write_table(pyarrow.table({"text": rows}), files / f"{split}-00000-of-00001.parquet")
    if config:
        listed = "".join(f"  - split: {split}\n    path: {config}/{split}-*\n" for split in splits)
        (folder / name / "README.md").write_text(f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{listed}---\n")
