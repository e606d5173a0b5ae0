#!/usr/bin/env python3
"""Encoding speed: wmtp against the `tokenizers` package, one thread each, the same documents in one run.

Documents are files of Python's own library, and Korean text of random words. Both sides have the
text in memory and their caches warm; passes alternate, and the ratio is the median over the rounds.
Reading, starting the program and printing are not timed on either side; the package's fast batch call,
which keeps no offsets, stands for it. `cpu_ratio` compares processor seconds: it holds on a busy machine
too.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Regex, Tokenizer, __version__, decoders, models, normalizers, pre_tokenizers, trainers

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = {"qwen": (QWEN, normalizers.NFC(), False), "llama3": (QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|"), None, True)}


def code_documents(num_bytes):
    documents, size = [], 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py")):
        if "site-packages" in path.parts or size > num_bytes:
            continue
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        if text:
            documents.append(text)
            size += len(text.encode())
    return documents


def korean_documents(num_bytes):
    rng = random.Random(0)
    syllables = [chr(0xAC00 + rng.randrange(11172)) for _ in range(1200)]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 5))) for _ in range(20_000)]
    weights = [1 / (rank + 5) for rank in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=1000)) + ".\n" for _ in range(num_bytes // 10_000)]


def train(name, documents):
    pattern, normalizer, ignore_merges = PATTERNS[name]
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=32_000, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(documents[::2], trainer)
    return tokenizer


def measure(wmtp, tokenizer, documents, folder, rounds):
    tokenizer.save(str(folder / "tokenizer.json"))
    files = []
    for i, text in enumerate(documents):
        files.append(folder / f"{i}.txt")
        files[-1].write_bytes(text.encode())
    command = [wmtp, "tokenizer", "encode", "--tokenizer", str(folder)]
    run = lambda *flags: subprocess.run([*command, *flags, *map(str, files)], check=True, capture_output=True, text=True)
    expected = [e.ids for e in tokenizer.encode_batch_fast(documents, add_special_tokens=False)]  # warms its cache
    same = [json.loads(line)["ids"] for line in run().stdout.splitlines()] == expected
    theirs, ours = [], []  # (wall seconds, processor seconds)
    for _ in range(rounds):
        start, cpu_start = time.perf_counter(), time.process_time()
        tokenizer.encode_batch_fast(documents, add_special_tokens=False)
        theirs.append((time.perf_counter() - start, time.process_time() - cpu_start))
        timed = json.loads(run("--time-only", "2").stdout.splitlines()[-1])
        ours.append((timed["seconds"], timed["cpu_seconds"]))
    size = sum(len(text.encode()) for text in documents) / 1e6
    ratio = lambda i: statistics.median(a[i] / b[i] for a, b in zip(theirs, ours))
    return {"mb": size, "tokens": sum(map(len, expected)), "same_tokens": same,
            "tokenizers_mb_s": size / statistics.median(t[0] for t in theirs),
            "wmtp_mb_s": size / statistics.median(t[0] for t in ours), "ratio": ratio(0), "cpu_ratio": ratio(1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wmtp", default=os.environ.get("WMTP_BIN", "build/bin/wmtp"))
    parser.add_argument("--megabytes", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    texts = {"code": code_documents(int(args.megabytes * 1e6)), "korean": korean_documents(int(args.megabytes * 2e5))}
    for name in PATTERNS:
        tokenizer = train(name, texts["code"] + texts["korean"])
        for kind, documents in texts.items():
            with tempfile.TemporaryDirectory() as folder:
                result = measure(args.wmtp, tokenizer, documents, Path(folder), args.rounds)
            print(json.dumps({"pattern": name, "text": kind, "tokenizers": __version__,
                              **{k: round(v, 2) if isinstance(v, float) else v for k, v in result.items()}}), flush=True)


if __name__ == "__main__":
    main()
