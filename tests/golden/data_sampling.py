"""Writes data_sampling.json: what every sampler must draw. A slow, plain reading of the sampling rules,
sharing nothing with the program. Run: python data_sampling.py > data_sampling.json
"""
import hashlib
import json
import math

M32, M64 = 2**32 - 1, 2**64 - 1


def philox(seed, stream, index):
    k0, k1 = seed & M32, seed >> 32
    c = [index & M32, index >> 32, stream & M32, stream >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & M32, (a >> 32) ^ c[3] ^ k1, a & M32]
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c


def stream_of(name):
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def shuffled(items, seed, name):
    items, stream, index = list(items), stream_of(name), 0
    for i in range(len(items), 1, -1):
        while True:
            w = philox(seed, stream, index)
            index += 1
            product = (w[0] + (w[1] << 32)) * i
            if (product & M64) >= (2**64 - i) % i:
                break
        j = product >> 64
        items[i - 1], items[j] = items[j], items[i - 1]
    return items


def permutation(n, seed, name):
    stream = stream_of(name)
    h = (max(2, (n - 1).bit_length()) + 1) // 2
    mask = 2**h - 1

    def once(i):
        left, right = i >> h, i & mask
        for r in range(8):
            left, right = right, left ^ (philox(seed, stream, r * 2**32 + right)[0] & mask)
        return left << h | right

    out = []
    for i in range(n):
        i = once(i)
        while i >= n:
            i = once(i)
        out.append(i)
    return out


def bin_of(difficulty, bins):
    if not bins:
        return "all"
    if difficulty is None:
        return None
    for name, (low, high) in bins.items():
        if low <= difficulty <= high:
            return name
    return None


def quotas(n, weights, counts):
    active = [b for b in counts if counts[b] > 0 and weights[b] > 0]
    total = 0.0
    for b in active:
        total += weights[b]
    q = dict.fromkeys(counts, 0)
    for b in active:
        q[b] = math.floor(n * (weights[b] / total) + 1e-9)
    order = sorted(active, key=lambda b: -counts[b])
    while sum(q.values()) < n and any(q[b] < counts[b] for b in order):
        for b in order:
            if sum(q.values()) < n and q[b] < counts[b]:
                q[b] += 1
    return q


class Shortage(Exception):
    pass


def settled(n, weights, counts, cap):
    q = quotas(n, weights, counts)
    for b in q:
        if q[b] > counts[b]:
            if not cap:
                raise Shortage(b)
            q[b] = counts[b]
    if sum(q.values()) < n and not cap and sum(counts[b] for b in counts if weights[b] > 0) < n:
        raise Shortage("all")
    return q


def take(items, count, o, name, used=None, key=lambda x: x):
    fresh = [x for x in items if used is None or key(x) not in used]
    again = [x for x in items if used is not None and key(x) in used]
    if o["shuffle"]:
        fresh = shuffled(fresh, o["seed"], name)
        if len(fresh) < count:
            again = shuffled(again, o["seed"], name + "/again")
    return (fresh + again)[:count]


def weights_of(o, given, counts):
    return {b: (given.get(b, 0) if given else counts[b]) for b in counts}


def largest(rows, table, o):
    """All rows of a bin, or the most of them in which the classes have the ratio asked for: found by trying."""
    ratio = o["correct_ratio"]
    if not o["balance_correct"] or ratio in (0, 1):
        return len(rows)
    good = sum(table[i]["correct"] for i in rows)
    fits = [q for q in range(len(rows) + 1) if q * ratio <= good + 1e-9 and q * (1 - ratio) <= len(rows) - good + 1e-9]
    return max(fits)


def draw_rows(table, o, prefix="", n=None, weights=None, used=None):
    weights = o["difficulty_weights"] if weights is None else weights
    every = n is None
    names = list(o["difficulty_bins"]) or ["all"]
    bins = {b: [] for b in names}
    for i, row in enumerate(table):
        b = bin_of(row["difficulty"], o["difficulty_bins"])
        if not row["candidate"] or b is None:
            continue
        if o["balance_correct"]:
            if o["correct_ratio"] >= 1 and not row["correct"]:
                continue
            if o["correct_ratio"] <= 0 and row["correct"]:
                continue
        bins[b].append(i)
    counts = {b: len(bins[b]) for b in names}
    w = weights_of(o, weights, counts)
    if every:
        q = {b: largest(bins[b], table, o) if w[b] > 0 else 0 for b in names}
    else:
        q = settled(n, w, counts, o["on_shortage"] == "cap")
    out = []
    for b in names:
        stream = f"{prefix}rows/{b}"
        if not o["balance_correct"]:
            out += take(bins[b], q[b], o, stream, used)
            continue
        good = [i for i in bins[b] if table[i]["correct"]]
        poor = [i for i in bins[b] if not table[i]["correct"]]
        nc = min(math.floor(q[b] * o["correct_ratio"] + 1e-9), len(good))
        ni = min(q[b] - nc, len(poor))
        nc = q[b] - ni
        out += take(good, nc, o, stream + "/correct", used)
        out += take(poor, ni, o, stream + "/incorrect", used)
    if used is not None:
        used.update(out)
    return shuffled(out, o["seed"], prefix + "rows") if o["shuffle"] else sorted(out)


def problems_of(table):
    out = {}
    for i, row in enumerate(table):
        if row["problem"] is None:
            continue
        p = out.setdefault(row["problem"], {"difficulty": None, True: [], False: []})
        if p["difficulty"] is None:
            p["difficulty"] = row["difficulty"]
        if row["candidate"]:
            p[row["correct"]].append(i)
    return sorted(out.items(), key=lambda kv: kv[0].encode())


def draw_pairs(table, o, prefix="", pair_prefix=None, n=None, weights=None, used=None):
    weights = o["difficulty_weights"] if weights is None else weights
    pair_prefix = prefix if pair_prefix is None else pair_prefix
    names = list(o["difficulty_bins"]) or ["all"]
    bins = {b: [] for b in names}
    for name, p in problems_of(table):
        b = bin_of(p["difficulty"], o["difficulty_bins"])
        if not p[True] or not p[False] or b is None:
            continue
        good, poor = p[True], p[False]
        if o["shuffle"]:
            good = shuffled(good, o["seed"], f"{pair_prefix}pairs/correct/{name}")
            poor = shuffled(poor, o["seed"], f"{pair_prefix}pairs/incorrect/{name}")
        bins[b] += [[c, i, -1] for c, i in list(zip(good, poor))[: o["max_pairs_per_problem"]]]
    counts = {b: len(bins[b]) for b in names}
    w = weights_of(o, weights, counts)
    q = {b: counts[b] if w[b] > 0 else 0 for b in names} if n is None else settled(n, w, counts, o["on_shortage"] == "cap")
    out = []
    for b in names:
        out += take(bins[b], q[b], o, f"{prefix}pairs/bin/{b}", used, key=lambda pair: pair[0])
    if used is not None:
        used.update(pair[0] for pair in out)
    return shuffled(out, o["seed"], prefix + "pairs") if o["shuffle"] else sorted(out)


def draw_length_pairs(table, o, prefix="", n=None):
    edges = o["length_bins"]

    def length_bin(tokens):
        found = -1
        for i, edge in enumerate(edges):
            if tokens >= edge:
                found = i
        return found

    every = []
    for name, p in problems_of(table):
        if bin_of(p["difficulty"], o["difficulty_bins"]) is None:
            continue
        made = []
        for b in range(len(edges)):
            good = [i for i in p[True] if length_bin(table[i]["output_tokens"]) == b]
            poor = [i for i in p[False] if length_bin(table[i]["output_tokens"]) == b]
            if o["shuffle"]:
                good = shuffled(good, o["seed"], f"{prefix}length_pairs/correct/{name}/{b}")
                poor = shuffled(poor, o["seed"], f"{prefix}length_pairs/incorrect/{name}/{b}")
            made += [[c, i, b] for c, i in zip(good, poor)]
        if o["shuffle"]:
            made = shuffled(made, o["seed"], f"{prefix}length_pairs/problem/{name}")
        every += made[: o["max_pairs_per_problem"]]
    n = len(every) if n is None else n
    if n > len(every):
        if o["on_shortage"] != "cap":
            raise Shortage("all")
        n = len(every)
    out = take(every, n, o, prefix + "length_pairs/bin/all")
    return shuffled(out, o["seed"], prefix + "length_pairs") if o["shuffle"] else sorted(out)


def draw(table, o, prefix=""):
    if o["use_length_balanced"]:
        return draw_length_pairs(table, o, prefix, o["n_samples"])
    return (draw_pairs if o["use_pairwise"] else draw_rows)(table, o, prefix, n=o["n_samples"])


def draw_curriculum(table, o, epoch):
    used, out = set(), []
    begin, end = epoch * 10**6, (epoch + 1) * 10**6
    piece = 0
    for i, stage in enumerate(o["curriculum_schedule"]):
        a, b = (round(x * 10**6) for x in stage["epoch_range"])
        if i + 1 == len(o["curriculum_schedule"]):
            b = max(end, b)
        a, b = max(a, begin), min(b, end)
        if a >= b:
            continue
        count = (b - begin) * o["n_samples"] // 10**6 - (a - begin) * o["n_samples"] // 10**6
        if count == 0:
            continue
        prefix = f"curriculum/{epoch}/{piece}/"
        kw = dict(n=count, weights=stage["difficulty_weights"], used=used)
        if o["use_pairwise"]:
            part = draw_pairs(table, o, prefix, f"epoch/{epoch}/", **kw)
        else:
            part = draw_rows(table, o, prefix, **kw)
        out.append({"count": count, "list": part, "order": permutation(count, o["seed"], f"order/{epoch}/{piece}")})
        piece += 1
    return out


def table_of(rows, problems, seed):
    state = seed

    def rnd(n):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) & M64
        return (state >> 33) % n

    out = []
    for _ in range(rows):
        problem = rnd(problems + 1)
        out.append({
            "difficulty": None if rnd(12) == 0 else 1 + (problem * 7 + (rnd(3) if rnd(5) == 0 else 0)) % 11,
            "correct": rnd(5) < 3,
            "problem": None if problem == problems else f"p\u00e9{problem}" if problem % 3 else f"P/{problem}",
            "output_tokens": rnd(260),
            "candidate": rnd(10) > 0,
        })
    return out


BASE = {"seed": 42, "n_samples": None, "shuffle": True, "balance_correct": False, "correct_ratio": 0.5,
        "on_shortage": "error", "use_pairwise": False, "max_pairs_per_problem": None,
        "use_length_balanced": False, "length_bins": [0, 100, 150, 200, 300], "difficulty_bins": {},
        "difficulty_weights": {}, "curriculum_schedule": []}
BINS = {"easy": [1, 3], "middle": [4, 7], "hard": [8, 11], "never": [50, 60]}
WEIGHTS = {"easy": 0.5, "middle": 0.3, "hard": 0.2}
STAGES = [{"epoch_range": [0, 0.35], "difficulty_weights": {"easy": 1.0}},
          {"epoch_range": [0.35, 1.2], "difficulty_weights": {"easy": 1, "middle": 1}},
          {"epoch_range": [1.2, 2], "difficulty_weights": {"middle": 0.25, "hard": 0.75}}]

CASES = {
    "all": {},
    "all, other seed": {"seed": 2**40 + 7},
    "all, no shuffle": {"shuffle": False},
    "some": {"n_samples": 57},
    "some, no shuffle": {"n_samples": 57, "shuffle": False},
    "bins, proportional": {"n_samples": 90, "difficulty_bins": BINS},
    "bins, weights": {"n_samples": 71, "difficulty_bins": BINS, "difficulty_weights": WEIGHTS},
    "bins, weight 0": {"n_samples": 40, "difficulty_bins": BINS, "difficulty_weights": {"easy": 0, "hard": 3, "middle": 1}},
    "bins, all, one left out": {"difficulty_bins": BINS, "difficulty_weights": {"easy": 1, "hard": 1}},
    "bins, cap": {"n_samples": 280, "difficulty_bins": BINS, "difficulty_weights": {"easy": 8, "hard": 1, "middle": 1}, "on_shortage": "cap"},
    "bins, short": {"n_samples": 280, "difficulty_bins": BINS, "difficulty_weights": {"easy": 8, "hard": 1, "middle": 1}},
    "balanced": {"n_samples": 61, "balance_correct": True},
    "balanced, ratio": {"n_samples": 61, "balance_correct": True, "correct_ratio": 0.3, "difficulty_bins": BINS, "difficulty_weights": WEIGHTS},
    "balanced, top up": {"n_samples": 240, "balance_correct": True, "correct_ratio": 0.1},
    "correct only": {"n_samples": 50, "balance_correct": True, "correct_ratio": 1.0},
    "incorrect only, no shuffle": {"n_samples": 50, "balance_correct": True, "correct_ratio": 0.0, "shuffle": False},
    "incorrect only, short": {"n_samples": 200, "balance_correct": True, "correct_ratio": 0.0},
    "all, balanced": {"balance_correct": True},
    "all, balanced, ratio": {"balance_correct": True, "correct_ratio": 0.3, "difficulty_bins": BINS},
    "all, balanced, one bin left out": {"balance_correct": True, "correct_ratio": 0.8, "difficulty_bins": BINS,
                                        "difficulty_weights": {"easy": 1, "hard": 1}},
    "all, correct only": {"balance_correct": True, "correct_ratio": 1.0},
    "all, incorrect only, no shuffle": {"balance_correct": True, "correct_ratio": 0.0, "shuffle": False},
    "pairs, all": {"use_pairwise": True},
    "pairs, some": {"use_pairwise": True, "n_samples": 33, "max_pairs_per_problem": 4},
    "pairs, bins": {"use_pairwise": True, "n_samples": 30, "difficulty_bins": BINS, "difficulty_weights": WEIGHTS},
    "pairs, no shuffle": {"use_pairwise": True, "n_samples": 30, "shuffle": False},
    "length pairs, all": {"use_pairwise": True, "use_length_balanced": True},
    "length pairs": {"use_pairwise": True, "use_length_balanced": True, "n_samples": 20, "max_pairs_per_problem": 3,
                     "length_bins": [20, 80, 160], "difficulty_bins": BINS},
}


def main():
    table = table_of(300, 17, 5)
    cases = []
    for name, change in CASES.items():
        o = {**BASE, **change}
        case = {"name": name, "options": change}
        try:
            case["list"] = draw(table, o)
            case["validation"] = draw(table, o, "validation/")
            case["epoch 3"] = draw(table, o, "epoch/3/")
        except Shortage as short:
            case["short"] = str(short)
        cases.append(case)
    curricula = []
    for name, change in {
        "rows": {"n_samples": 40},
        "rows, balanced": {"n_samples": 37, "balance_correct": True},
        "rows, run out": {"n_samples": 95},
        "pairs": {"n_samples": 14, "use_pairwise": True},
    }.items():
        change = {**change, "difficulty_bins": BINS, "curriculum_schedule": STAGES}
        o = {**BASE, **change}
        curricula.append({"name": name, "options": change, "epochs": [draw_curriculum(table, o, e) for e in range(4)]})
    orders = [{"seed": s, "n": n, "name": f"order/{e}", "order": permutation(n, s, f"order/{e}")}
              for s, n, e in [(42, 10, 0), (42, 10, 1), (7, 1, 0), (7, 2, 3), (7, 3, 3), (7, 4, 3), (7, 5, 3),
                              (42, 100, 2), (2**63, 257, 9)]]
    quota_cases = []
    for n, w, c in [(10, [1, 1, 1], [10, 10, 10]), (11, [1, 1, 1], [5, 9, 9]), (7, [0.1, 0.2, 0.7], [3, 3, 3]),
                    (100, [0.3, 0.3, 0.4], [30, 40, 10]), (5, [1, 0, 1], [2, 100, 9]), (9, [1, 1], [0, 20]),
                    (10, [0.29999999999999999, 0.7], [5, 8]), (30, [1, 1], [10, 10]), (1000, [1, 2, 3], [400, 400, 400])]:
        names = [f"b{i}" for i in range(len(w))]
        q = quotas(n, dict(zip(names, w)), dict(zip(names, c)))
        quota_cases.append({"n": n, "weights": w, "counts": c, "quotas": [q[b] for b in names]})
    print(json.dumps({"base": BASE, "table": table, "cases": cases, "curricula": curricula, "orders": orders,
                      "quotas": quota_cases}, separators=(",", ":")).replace("},{", "},\n{"))


if __name__ == "__main__":
    main()
