#!/usr/bin/env python3
"""torch.distributed.checkpoint on the tensors of a wmtp checkpoint: save and async_save, one JSON line.

  python bench/peer_dcp.py CHECKPOINT OUT [--rounds 5]
Tensors have the names, shapes and dtypes of CHECKPOINT's manifest; files are fsynced, as wmtp does. Staging memory is
not kept between saves: FileSystemWriter(cache_staged_state_dict=True) wants pinned memory, hence a GPU.
"""
import argparse
import json
import os
import shutil
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemWriter

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def state_like(checkpoint):
    tables = json.loads((Path(checkpoint) / "manifest.json").read_text())["tensors"]
    return {name: torch.randn(record["shape"]).to(DTYPES[record["dtype"]])
            for table in tables.values() for name, record in table.items()}


def fresh(folder):
    """A writer into an empty folder, on a disk that has nothing else to do."""
    shutil.rmtree(folder, ignore_errors=True)
    os.sync()
    return FileSystemWriter(folder, sync_files=True)


def timed(work):
    start = time.monotonic()
    result = work()
    return time.monotonic() - start, result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # async_save wants one
    state = state_like(args.checkpoint)
    folder = args.out / "dcp"
    saves, blocked, asyncs = [], [], []
    for number in range(args.rounds + 1):  # the first one warms up
        writer = fresh(folder)
        save, _ = timed(lambda: dcp.save(state, storage_writer=writer))
        writer = fresh(folder)
        start = time.monotonic()
        block, future = timed(lambda: dcp.async_save(state, storage_writer=writer))
        future.result()
        if number:
            saves.append(save), blocked.append(block), asyncs.append(time.monotonic() - start)
    shutil.rmtree(folder)
    print(json.dumps({"bytes": sum(t.numel() * t.element_size() for t in state.values()),
                      "save_s": saves, "async_blocked_s": blocked, "async_save_s": asyncs}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
