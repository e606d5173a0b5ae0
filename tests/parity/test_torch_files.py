"""Files of torch.save: every usual one loads, with the bytes that were saved; damage is named."""
import collections
import io
import struct
import tarfile
import zipfile

import pytest
import torch
from torch_file_checks import check
from transformers import LlamaConfig, LlamaForCausalLM


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_state_dicts_of_every_protocol(wmtp, tmp_path, protocol):
    base = torch.randn(6, 8)
    state = {"plain": base.clone(), "transposed": base.t(), "part": base[2:4, 1:5], "same storage": base,
             "empty": torch.zeros(0, 3), "scalar": torch.tensor(3.5), "parameter": torch.nn.Parameter(torch.ones(3))}
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
                  torch.uint8, torch.bool):
        state[str(dtype)] = torch.arange(5).to(dtype)
    torch.save(state, tmp_path / "s.pt", pickle_protocol=protocol)
    check(wmtp, tmp_path / "s.pt", state)


def test_views_of_every_legal_shape(wmtp, tmp_path):
    """Expanded (stride 0), overlapping, permuted and stepped views, of aligned and odd places, in pieces and whole."""
    base, wide = torch.randn(7, 6, 5), torch.randn(1200, 1100)
    views = {"expanded scalar": torch.tensor(2.5).expand(3, 4), "expanded row": torch.arange(5.0).expand(4, 5),
             "expanded column": torch.arange(4.0)[:, None].expand(4, 1000), "expanded middle": base[:, :1].expand(7, 6, 5),
             "overlapping": torch.arange(10.0).unfold(0, 4, 1), "anti-diagonals": torch.arange(9.0).as_strided((5, 5), (1, 1)),
             "permuted": base.permute(2, 0, 1), "stepped": base[::2, 1::2, ::3], "odd place": base.view(-1)[1::7],
             "large transposed": wide.t(), "large stepped": wide[1:, ::3], "one element": base[3:4, 2:3, 1:2],
             "empty": base[:, 3:3].permute(2, 1, 0), "half": torch.arange(12).half().view(3, 4).t(),
             "bytes": torch.arange(12, dtype=torch.uint8).view(3, 4).t(),
             "doubles": torch.arange(12.0, dtype=torch.float64).view(3, 4).t().expand(2, 4, 3)}
    torch.save(views, tmp_path / "v.pt")
    check(wmtp, tmp_path / "v.pt", views)


def test_a_negated_view_is_refused(wmtp, tmp_path):
    view = torch.randn(3, dtype=torch.complex64).conj().imag
    assert view.is_neg()
    torch.save({"w": view}, tmp_path / "neg.pt")
    done = wmtp.run("checkpoint", "inspect", tmp_path / "neg.pt", "--tensors", check=False)
    assert done.returncode == 65 and ("view bit neg" in done.stderr or "ComplexFloatStorage" in done.stderr), done.stderr


def test_saved_without_checksums(wmtp, tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": torch.arange(6.0)}, tmp_path / "w.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    check(wmtp, tmp_path / "w.pt", {"w": torch.arange(6.0)})
    assert "saved without checksums" in wmtp.run("checkpoint", "inspect", tmp_path / "w.pt").stderr


def test_a_damaged_byte_of_any_storage(wmtp, tmp_path):
    """The weights a model is made of are read by several pieces; whichever storage is damaged is named."""
    folder = tmp_path / "model"
    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                                         num_attention_heads=4))
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (tmp_path / "rows.jsonl").write_text('{"ids": [1, 2, 3, 4]}\n')
    scoring = ("score", "--model", folder, "--data", tmp_path / "rows.jsonl", "--device", "cpu")
    wmtp.run(*scoring)
    good = (folder / "pytorch_model.bin").read_bytes()
    with zipfile.ZipFile(folder / "pytorch_model.bin") as archive_:
        storages = [info for info in archive_.infolist() if "/data/" in info.filename and info.file_size > 16]
    for info in storages[::4]:
        header = info.header_offset
        begin = header + 30 + sum(struct.unpack("<HH", good[header + 26:header + 30]))
        damaged = bytearray(good)
        damaged[begin + info.file_size - 3] ^= 0x10
        (folder / "pytorch_model.bin").write_bytes(damaged)
        message = wmtp.error(*scoring, code=65)["message"]
        assert f"entry {info.filename} has CRC-32" in message, message


def test_integers_where_weights_belong(wmtp, tmp_path):
    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                                         num_attention_heads=4))
    model.config.save_pretrained(tmp_path)
    state = model.state_dict()
    state["model.norm.weight"] = torch.ones(32, dtype=torch.int64)
    state["model.layers.0.mlp.up_proj.weight"] = torch.ones(48, 32, dtype=torch.bool)
    torch.save(state, tmp_path / "pytorch_model.bin")
    message = wmtp.error("checkpoint", "inspect", tmp_path, code=78)["message"]
    assert "model.norm.weight has dtype I64, expected floating-point numbers" in message
    assert "model.layers.0.mlp.up_proj.weight has dtype BOOL" in message


def test_a_module_with_thousands_of_tensors(wmtp, tmp_path):
    module = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(1500))
    torch.save(module.state_dict(), tmp_path / "s.pth")  # an OrderedDict with _metadata
    check(wmtp, tmp_path / "s.pth", dict(module.state_dict()))


def test_checkpoints_of_the_python_project(wmtp, tmp_path):
    w = torch.randn(4, 4)
    name = "layers.0.attention.wq"
    cases = {
        "model": ({"model_state_dict": {f"module.transformer.{name}.weight": w}, "total_steps": 3,
                   "start_batch_index": 0}, {f"{name}.weight"}),
        "adapter": ({"epoch": 1, "adapter_state_dict": {f"_fsdp_wrapped_module.{name}.lora_A": w},
                     "optimizer_state_dict": {"state": {0: {"exp_avg": w}}, "param_groups": [{"lr": 0.1}]},
                     "train_metrics": {"loss": 1.5}}, {f"{name}.lora_A.weight"}),
        "lora": ({"checkpoint_type": "lora", "lora_state_dict": {f"{name}.lora_B": w},
                  "extra_heads_state_dict": {"0.attention.wq.linear.weight": w},
                  "value_head_state_dict": {"linear.weight": w}, "lora_config": {"rank": 4, "target": ["wq"]}},
                 {f"{name}.lora_B.weight", "extra_heads.0.attention.wq.weight", "value_head.linear.weight"}),
        "critic": ({"backbone_state_dict": {"model.norm.weight": w}, "value_head_state_dict": {"mlp.0.bias": w}},
                   {"model.norm.weight", "value_head.mlp.0.bias"}),
    }
    for case, (content, names) in cases.items():
        torch.save(content, tmp_path / f"{case}.pt")
        check(wmtp, tmp_path / f"{case}.pt", dict.fromkeys(names, w))


def test_old_formats_are_refused_with_advice(wmtp, tmp_path):
    torch.save({"a": torch.zeros(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with tarfile.open(tmp_path / "older.pt", "w") as tar:
        tar.addfile(tarfile.TarInfo("storages"))
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "script.pt")
    for file, fact in (("old.pt", "bare pickle"), ("older.pt", "tar archive"), ("script.pt", "TorchScript")):
        error = wmtp.error("checkpoint", "inspect", tmp_path / file, code=78)
        assert fact in error["message"] and error["hint"]


def test_duplicate_names_after_cleaning(wmtp, tmp_path):
    torch.save(collections.OrderedDict([("module.w", torch.zeros(1)), ("w", torch.ones(1))]), tmp_path / "d.pt")
    assert "tensor w occurs twice" in wmtp.error("checkpoint", "inspect", tmp_path / "d.pt", code=65)["message"]


def test_an_archive_in_memory_order_of_torch(wmtp, tmp_path):
    buffer = io.BytesIO()
    torch.save({"w": torch.arange(10)}, buffer)
    (tmp_path / "b.pt").write_bytes(buffer.getvalue())
    check(wmtp, tmp_path / "b.pt", {"w": torch.arange(10)})
