"""Model folders against transformers: which weights, what configuration, what is refused."""
import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tolerance import near
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=1024)


def sha(tensor):
    return hashlib.sha256(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def inspect(wmtp, path, *flags, **options):
    lines = wmtp.json_lines("checkpoint", "inspect", path, "--tensors", *flags, **options)
    model = next((line for line in lines if line["type"] == "model"), None)
    return model, {line["name"]: line for line in lines if line["type"] == "tensor"}


def edit_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    (folder / "config.json").write_text(json.dumps(config))


def edit_weights(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture
def llama(tmp_path):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    model.save_pretrained(tmp_path / "llama")
    return tmp_path / "llama", model


@pytest.fixture
def qwen(tmp_path):
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True))
    model.save_pretrained(tmp_path / "qwen")
    return tmp_path / "qwen", model


@pytest.mark.parametrize("kind", ["llama", "qwen"])
def test_single_file_and_count(wmtp, request, kind):
    folder, model = request.getfixturevalue(kind)
    config, tensors = inspect(wmtp, folder)
    assert config["parameters"] == sum(p.numel() for p in model.parameters())
    for name, value in model.named_parameters():
        assert tensors[name]["sha256"] == sha(value), name
    assert config["head_dim"] == model.config.head_dim and config["tied"] == model.config.tie_word_embeddings


def test_sharded_folder_and_org_name_in_the_cache(wmtp, llama, tmp_path):
    _, model = llama
    snapshot = tmp_path / "hub/models--some-org--tiny.llama/snapshots/abc123"
    model.save_pretrained(snapshot, max_shard_size="20KB")
    assert len(list(snapshot.glob("model-*.safetensors"))) > 2
    blobs = tmp_path / "hub/models--some-org--tiny.llama/blobs"
    blobs.mkdir()
    for file in list(snapshot.iterdir()):  # the cache's shape: links to blobs
        file.rename(blobs / file.name)
        file.symlink_to(f"../../blobs/{file.name}")
    (snapshot / "../../refs").mkdir()
    (snapshot / "../../refs/main").write_text("abc123")
    _, tensors = inspect(wmtp, "some-org/tiny.llama", env={"HF_HUB_CACHE": str(tmp_path / "hub")})
    for name, value in model.named_parameters():
        assert tensors[name]["sha256"] == sha(value), name
    error = wmtp.error("checkpoint", "inspect", "some-org/other", code=78, env={"HF_HUB_CACHE": str(tmp_path / "hub")})
    assert error["hint"] == "download it with: hf download some-org/other"


def test_a_slip_in_a_local_path_is_no_name_of_the_hub(wmtp, llama, tmp_path):
    def refused(name):
        error = wmtp.error("checkpoint", "inspect", name, code=78, cwd=tmp_path, env={"HF_HUB_CACHE": str(tmp_path / "hub")})
        return error["message"], error["hint"]
    llama[1].save_pretrained(tmp_path / "models/tiny-llama")
    for slip in ("modles/tiny-llama", "./models/tiny-lama", "models/deep/tiny-llama"):
        message, hint = refused(slip)
        assert f"there is no file or folder {slip}" in message and "hf download" not in hint, message
        assert hint == ("models holds tiny-llama" if "deep" in slip else f"did you mean {'./' * slip.startswith('.')}models/tiny-llama?")
    # With a folder of that name it may be either.
    assert refused("models/other")[1] == "models holds tiny-llama or, if it is on the hub, download it with: hf download models/other"
    assert refused("modles/other")[1] == "did you mean models? or, if it is on the hub, download it with: hf download modles/other"


def test_bin_files(wmtp, llama, tmp_path):
    folder, model = llama
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    _, tensors = inspect(wmtp, folder)
    for name, value in model.named_parameters():
        assert tensors[name]["sha256"] == sha(value), name


def test_all_misfits_are_listed_at_once(wmtp, llama):
    folder, _ = llama

    def change(tensors):
        tensors.pop("model.layers.1.mlp.up_proj.weight")
        tensors.pop("lm_head.weight")
        tensors["model.norm.weight"] = torch.zeros(31)
        tensors["stranger"] = torch.zeros(2, 3)
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
    edit_weights(folder, change)
    message = wmtp.error("checkpoint", "inspect", folder, code=78)["message"]
    assert "2 missing: lm_head.weight [64, 32]; model.layers.1.mlp.up_proj.weight [48, 32]" in message
    assert "1 unexpected: stranger [2, 3]" in message
    assert "1 not as expected: model.norm.weight is [31], expected [32]" in message
    assert "rotary_emb" not in message


def test_numbers_beyond_64_bits(wmtp, llama):
    """A limit may be none; a size cannot; what is not ours may be anything."""
    folder, _ = llama
    edit_config(folder, max_position_embeddings=1000000000000000019884624838656, strange=[-10**40], n_positions=2**64)
    model, _ = inspect(wmtp, folder)
    assert model["max_positions"] == 2**32
    edit_config(folder, vocab_size=10**30)
    message = wmtp.error("checkpoint", "inspect", folder, code=78)["message"]
    assert "config.json: vocab_size is 1e+30, must be an integer" in message


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 100, b"\0}", b"}", b"\0{}"], ids=str)
def test_bytes_after_the_end_of_a_config(wmtp, llama, tail):
    folder, _ = llama
    good = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(good + b"\n\n")
    inspect(wmtp, folder)
    (folder / "config.json").write_bytes(good + tail)
    assert "config.json: " in wmtp.error("checkpoint", "inspect", folder, code=65)["message"]


def test_config_that_contradicts_the_weights(wmtp, llama):
    folder, _ = llama
    edit_config(folder, hidden_size=64, head_dim=16)
    assert "model.embed_tokens.weight is [64, 32], expected [64, 64]" in \
        wmtp.error("checkpoint", "inspect", folder, code=78)["message"]


def test_a_wrong_theta_is_a_warning(wmtp, llama):
    folder, model = llama
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    inv_freq = model.model.rotary_emb.inv_freq.clone()
    edit_weights(folder, lambda tensors: tensors.update({name: inv_freq}))
    assert "theta" not in wmtp.run("checkpoint", "inspect", folder).stderr
    edit_config(folder, rope_theta=500000.0, rope_parameters=None)
    assert "is its rope theta right?" in wmtp.run("checkpoint", "inspect", folder).stderr


def test_tied_unembedding(wmtp, qwen):
    folder, model = qwen
    embedding = model.model.embed_tokens.weight.detach()
    assert "lm_head.weight" not in inspect(wmtp, folder)[1]
    edit_weights(folder, lambda tensors: tensors.update({"lm_head.weight": embedding.clone()}))
    inspect(wmtp, folder)
    edit_weights(folder, lambda tensors: tensors.update({"lm_head.weight": embedding + 1}))
    assert "although the config ties them" in wmtp.error("checkpoint", "inspect", folder, code=78)["message"]


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "a/b.safetensors", "", "..", "x\0y", "n" * 300])
def test_an_index_cannot_lead_outside(wmtp, llama, name):
    folder, _ = llama
    (folder / "model.safetensors").rename(folder.parent / "secret.safetensors")
    index = {"metadata": {}, "weight_map": {"model.norm.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    wmtp.error("checkpoint", "inspect", folder, code=65)


def test_an_index_that_lies(wmtp, llama):
    folder, _ = llama
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    for weight_map, code in (({"nobody": "model-00001-of-00001.safetensors"}, 65), ({"a": "missing.safetensors"}, 78)):
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        wmtp.error("checkpoint", "inspect", folder, code=code)


def meta_state(model, n_future=1):
    """A transformers Llama as Meta would have saved it: other names, rows of q and k interleaved."""
    names = {"self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
             "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
             "mlp.down_proj": "feed_forward.w2", "input_layernorm": "attention_norm",
             "post_attention_layernorm": "ffn_norm"}
    e, layers = model.config.head_dim, model.config.num_hidden_layers - n_future + 1
    state = {}
    for name, value in model.state_dict().items():
        value = value.clone()
        if name.startswith("model.layers."):
            _, _, index, part = name.split(".", 3)
            part = part.removesuffix(".weight")
            if part in ("self_attn.q_proj", "self_attn.k_proj"):
                value = value.view(-1, 2, e // 2, value.shape[1]).transpose(1, 2).reshape(value.shape)
            index = int(index)
            group = f"layers.{index}" if index < layers else f"extra_heads.{index - layers}"
            state[f"{group}.{names[part]}.weight"] = value
        else:
            state[{"model.embed_tokens.weight": "tok_embeddings.weight", "model.norm.weight": "norm.weight",
                   "lm_head.weight": "output.weight"}[name]] = value
    return state


def ours(name, layers):
    if name.startswith("model.layers."):
        index = int(name.split(".")[2])
        if index >= layers:
            return name.replace(f"model.layers.{index}.", f"model.extra_heads.{index - layers}.")
    return name


@pytest.mark.parametrize("layout", ["meta", "python_project"])
@pytest.mark.parametrize("n_future", [1, 2])
def test_meta_weights_come_out_half_split(wmtp, tmp_path, layout, n_future):
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(**{**SIZES, "intermediate_size": 96}))
    state = meta_state(model, n_future)
    params = {"dim": 32, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "vocab_size": -1, "multiple_of": 32,
              "norm_eps": 1e-6, "n_future_tokens": n_future}
    folder = tmp_path / "model"
    folder.mkdir()
    if layout == "meta":
        state["rope.freqs"] = model.model.rotary_emb.inv_freq.clone()
        torch.save(state, folder / "consolidated.00.pth")
        (folder / "params.json").write_text(json.dumps(params))
    else:
        (folder / "safetensors").mkdir()
        (folder / "configs").mkdir()
        save_file(state, folder / "safetensors/model.safetensors")
        (folder / "configs/params.json").write_text(json.dumps({"model": params}))
    config, tensors = inspect(wmtp, folder)
    assert config["n_future_tokens"] == n_future and config["vocab_size"] == 64
    for name, value in model.named_parameters():
        assert tensors[ours(name, 4 - n_future)]["sha256"] == sha(value), name
    _, raw = inspect(wmtp, folder, "--raw")
    assert raw["layers.0.attention.wq.weight"]["sha256"] == sha(state["layers.0.attention.wq.weight"])


def test_tensor_parallel_pieces_are_refused(wmtp, tmp_path):
    for i in range(2):
        torch.save({"norm.weight": torch.zeros(2)}, tmp_path / f"consolidated.0{i}.pth")
    (tmp_path / "params.json").write_text("{}")
    assert "tensor-parallel" in wmtp.error("checkpoint", "inspect", tmp_path, code=78)["message"]


LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
ROPE = {
    "nothing": {},
    "theta only": dict(rope_theta=5e5),
    "rope_parameters": dict(rope_parameters=dict(rope_type="default", rope_theta=7e4)),
    "both, different": dict(rope_theta=5e5, rope_parameters=dict(rope_type="default", rope_theta=7e4)),
    "rope_scaling beside rope_parameters": dict(
        rope_theta=5e5, rope_scaling=dict(rope_type="llama3", original_max_position_embeddings=128, **LLAMA3),
        rope_parameters=dict(rope_type="default", rope_theta=7e4)),
    "rope_scaling null": dict(rope_theta=5e5, rope_scaling=None),
    "rope_scaling empty": dict(rope_theta=5e5, rope_scaling={}, rope_parameters=dict(rope_theta=7e4)),
    "type": dict(rope_theta=5e5, rope_scaling=dict(type="llama3", original_max_position_embeddings=128, **LLAMA3)),
    "original length at the top": dict(original_max_position_embeddings=256,
                                       rope_scaling=dict(rope_type="llama3", **LLAMA3)),
    "original length twice": dict(original_max_position_embeddings=256, rope_scaling=dict(
        rope_type="llama3", original_max_position_embeddings=128, **LLAMA3)),
    "original length nowhere": dict(rope_scaling=dict(rope_type="llama3", **LLAMA3)),
    "theta inside rope_scaling": dict(rope_theta=5e5, rope_scaling=dict(rope_type="default", rope_theta=3e4)),
}


@pytest.mark.parametrize("case", ROPE)
def test_rope_is_resolved_as_transformers_does(wmtp, tmp_path, case):
    sizes = {**SIZES, "hidden_size": 256, "num_attention_heads": 2}  # head_dim 128
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **sizes, **ROPE[case]}))
    expected = LlamaRotaryEmbedding(LlamaConfig.from_pretrained(tmp_path)).inv_freq
    config = next(line for line in wmtp.json_lines("checkpoint", "inspect", tmp_path) if line["type"] == "model")
    ours = torch.tensor(config["rope"]["inv_freq"])
    near(ours, expected, rel=8 * 2**-24, what=case)  # the power, its reciprocal and the scaling, in two programs
