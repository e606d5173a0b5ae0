"""Repeats a run of wmtp_train_probe in PyTorch FSDP2: same weights, same batches, same optimizer. Under torchrun:

  torchrun --nproc_per_node=2 fsdp2_repeat.py PROBE_DIR PRESET LEARNING_RATE [REPLICAS]
With REPLICAS the ranks are a mesh of so many rows: sharded in a row, replicated over the rows (HSDP).
Rank 0 writes PROBE_DIR/torch.safetensors (weights after the last step) and PROBE_DIR/torch.json {losses, grad_norms}.
"""
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/gpu")]
import anchor_fsdp2 as peer  # noqa: E402
from parity import mtp_names  # noqa: E402


def main():
    folder, preset, rate = pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    shape = peer.PRESETS[preset]
    names = mtp_names(shape)
    weights, run = load_file(folder / "start.safetensors"), json.loads((folder / "run.json").read_text())
    model = peer.MtpModel(shape, False)
    model.load_state_dict({a: weights[b] for a, b in names.items()})
    replicas = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    mesh = (init_device_mesh("cpu", (replicas, world // replicas), mesh_dim_names=("replicate", "shard")) if replicas
            else init_device_mesh("cpu", (world,)))
    for block in [*model.trunk, *model.heads]:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01)
    length = len(run["tokens"][0][0][0])
    angles = torch.outer(torch.arange(length).float(),
                         1.0 / shape.theta ** (torch.arange(0, shape.head_dim, 2).float() / shape.head_dim))
    losses, norms = [], []
    for step in run["tokens"]:
        tokens = torch.tensor(step[rank])
        loss = model(tokens, tokens, angles.cos(), angles.sin())
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
    norms = [n.full_tensor().item() if isinstance(n, DTensor) else n.item() for n in norms]
    whole = {names[n]: p.full_tensor().detach().contiguous() for n, p in model.named_parameters()}
    if rank == 0:
        save_file(whole, folder / "torch.safetensors")
        (folder / "torch.json").write_text(json.dumps(dict(losses=losses, grad_norms=norms)))
    dist.barrier()
    os._exit(0)  # PyTorch's Gloo threads now and then abort an orderly exit ("terminate called")


if __name__ == "__main__":
    main()
