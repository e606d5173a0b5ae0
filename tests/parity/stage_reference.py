"""The model and the stages' formulas once more, in fp64, row by row, for autograd: what tests of a step compare with."""
import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from tolerance import near

HEADS, QUERY_HEADS, KV_HEADS, HEAD_DIM, EPS, THETA = 3, 4, 2, 8, 1e-5, 1e4
TRUNK = ("model.layers.0", "model.layers.1")
HEAD_BLOCKS = ("model.layers.2", "model.extra_heads.0", "model.extra_heads.1")


# ---- the model ----

@dataclass
class Model:
    weights: dict
    lora_scale: float = 0.0

    def norm(self, name, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * self.weights[name + ".weight"]

    def linear(self, name, x):
        y = x @ self.weights[name + ".weight"].T
        if name + ".lora_A.weight" in self.weights:
            a, b = (self.weights[f"{name}.lora_{part}.weight"] for part in "AB")
            y = y + self.lora_scale * (x @ a.T) @ b.T
        return y

    def rotate(self, x):
        """[T, heads, dim], halves of the dim turned against each other."""
        inverse = (1.0 / THETA ** (torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM)).double()
        angles = torch.outer(torch.arange(x.shape[0]).double(), inverse)[:, None, :]
        low, high = x.chunk(2, -1)
        return torch.cat([low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()], -1)

    def block(self, name, x):
        length = x.shape[0]
        h = self.norm(name + ".input_layernorm", x)
        q, k, v = (self.linear(f"{name}.self_attn.{part}_proj", h).view(length, -1, HEAD_DIM) for part in "qkv")
        k, v = (part.repeat_interleave(QUERY_HEADS // KV_HEADS, 1) for part in (self.rotate(k), v))
        scores = torch.einsum("ihd,jhd->hij", self.rotate(q), k) / math.sqrt(HEAD_DIM)
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -math.inf)
        mixed = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).reshape(length, -1)
        x = x + self.linear(name + ".self_attn.o_proj", mixed)
        h = self.norm(name + ".post_attention_layernorm", x)
        gated = F.silu(self.linear(name + ".mlp.gate_proj", h)) * self.linear(name + ".mlp.up_proj", h)
        return x + self.linear(name + ".mlp.down_proj", gated)

    def trunk(self, ids):
        x = self.weights["model.embed_tokens.weight"][torch.tensor(ids)]
        for name in TRUNK:
            x = self.block(name, x)
        return x

    def nll(self, hidden, ids, head):
        """ce[i] of head `head` (from 1) for i = 0 .. T - head - 1."""
        logits = self.linear("lm_head", self.norm("model.norm", self.block(HEAD_BLOCKS[head - 1], hidden)))
        targets = torch.tensor(ids[head:], dtype=torch.long)
        return F.cross_entropy(logits[:len(targets)], targets, reduction="none")

    def values(self, hidden, detached=False):
        u = self.norm("model.norm", hidden)
        u = u.detach() if detached else u
        layer = lambda name, x: x @ self.weights[f"value_head.{name}.weight"].T + self.weights[f"value_head.{name}.bias"]
        if "value_head.mlp.0.weight" in self.weights:
            for name in ("mlp.0", "mlp.3"):
                u = F.gelu(layer(name, u))
            return layer("mlp.6", u)[:, 0]
        return layer("linear", u)[:, 0]


# ---- the formulas ----

def response(row):
    return range(row["prompt"], len(row["ids"]))


def td_errors(row, v, options):
    """x of every response position of one row, by position."""
    places = list(response(row))
    if not places:
        return {}
    gamma, lam, end = options.get("gamma", 1.0), options.get("lambda", 0.95), places[-1]
    before = lambda t: v[t - 1] if t > 0 else options.get("v_init", 0.5)
    if options.get("mode", "td0") == "td0":
        return {t: gamma * v[t] - before(t) if t < end else row["reward"] - v[t] for t in places}
    if options.get("terminal") == "monte_carlo":
        return {t: row["reward"] - v[t] for t in places}
    x, after = {}, 0.0
    for t in reversed(places):
        gain = gamma * v[t] - before(t)
        if t == end and options.get("terminal") == "reward":
            gain = row["reward"] - before(t)
        x[t] = after = gain + gamma * lam * after
    return x


def whitened(xs, options, ema):
    """xs: of each row of a micro-batch."""
    flat = torch.tensor([x for row in xs for x in row.values()], dtype=torch.double)
    if options.get("whiten") == "ema":
        mean, std = ema[0], ema[1] + 1e-8
    elif options.get("whiten") == "batch":
        mean, std = flat.mean().item(), flat.std().item() + 1e-8
    else:
        mean, std = 0.0, 1.0
    return [{t: (x - mean) / std for t, x in row.items()} for row in xs]


def weigh(x, options):
    return min(max(math.exp(x / options.get("beta", 0.9)), options.get("clip_min", 0.1)), options.get("clip_max", 5.0))


def head_loss(entries, normalization):
    """entries[k]: (weight, ce) of all valid targets of head k. L and Lu."""
    sums = [(sum(w * ce for w, ce in head), sum(w for w, _ in head), sum(ce for _, ce in head), len(head)) for head in entries]
    plain = [u / n for _, _, u, n in sums if n]
    if normalization == "weights_joint":
        return sum(s for s, *_ in sums) / sum(w for _, w, *_ in sums), sum(plain) / len(plain)
    divisors = [n if normalization == "tokens" else w for _, w, _, n in sums]
    parts = [s / d for (s, *_), d in zip(sums, divisors) if d]
    return sum(parts) / len(parts), sum(plain) / len(plain)


def value_loss(rows, values, options):
    """mse and lambda_return over all rows of the step."""
    of_rows, lam, gamma = [], options.get("lambda", 1.0), options.get("gamma", 1.0)
    for row, v in zip(rows, values):
        places, target, losses = list(response(row)), row["reward"], []
        for t in reversed(places):
            if options.get("type", "mse") == "lambda_return" and t != places[-1]:
                target = gamma * ((1 - lam) * v[t + 1].item() + lam * target)
            error = v[t] - target
            if options.get("type", "mse") == "mse" or options.get("loss_fn", "huber") == "mse":
                losses.append(error ** 2)
            else:
                delta = options.get("huber_delta", 0.5)
                losses.append(error ** 2 / (2 * delta) if abs(error.item()) < delta else error.abs() - delta / 2)
        if losses:
            of_rows.append(torch.stack(losses))
    if options.get("reduction") == "token":
        return torch.cat(of_rows).mean()
    return torch.stack([losses.mean() for losses in of_rows]).mean()


def selected_places(scores, share):
    """Indices of the c(n) largest, the first of equals first; and the threshold."""
    n = len(scores)
    if not n:
        return set(), None
    order = sorted(range(n), key=lambda i: (-scores[i], i))
    threshold = torch.quantile(torch.tensor(scores, dtype=torch.double), 1 - share).item()
    return set(order[:1 + (n - 1) * round(share * 1e6) // 10**6]), threshold


@dataclass
class Expected:
    loss: torch.Tensor
    weights: list = field(default_factory=list)    # of each micro-batch, flat over its rows
    selected: list = field(default_factory=list)   # of each micro-batch and head, at the predicted token
    values: list = field(default_factory=list)
    metrics: dict = field(default_factory=dict)
    ema: list = None


def micro_batches(case):
    samples, width = case["samples"], case.get("batch_size", 8)
    return [[row for sample in samples[i:i + width] for row in sample] for i in range(0, len(samples), width)]


def expect_baseline(case, model, frozen, found):
    entries = [[] for _ in range(HEADS)]
    for batch in micro_batches(case):
        for row in batch:
            hidden = model.trunk(row["ids"])
            for k in range(1, HEADS + 1):
                ce = model.nll(hidden, row["ids"], k)
                entries[k - 1] += [(1.0, ce[t - k]) for t in response(row) if t >= k]
    loss, _ = head_loss(entries, "tokens")
    return Expected(loss)


def expect_critic(case, model, frozen, found):
    options = case.get("options", {})
    rows = [row for batch in micro_batches(case) for row in batch]
    values = [model.values(model.trunk(row["ids"])) for row in rows]
    expected = Expected(None, values=[torch.cat(values[a:b]) for a, b in row_ranges(case)])
    means = [v[row["prompt"]:].mean() for row, v in zip(rows, values) if list(response(row))]
    if options.get("type") == "pairwise_ranking":
        gaps = [values[i][rows[i]["prompt"]:].mean() - values[i + 1][rows[i + 1]["prompt"]:].mean()
                for i in range(0, len(rows), 2) if list(response(rows[i])) and list(response(rows[i + 1]))]
        loss = torch.stack([F.softplus(-gap) for gap in gaps]).mean()
        expected.metrics["train/pairwise_accuracy"] = sum(gap.item() > 0 for gap in gaps) / len(gaps)
    else:
        loss = value_loss(rows, values, options)
    sides = [[m.item() for m, row in zip(means, (r for r in rows if list(response(r)))) if (row["reward"] > .5) == side]
             for side in (True, False)]
    expected.metrics["value/margin"] = sum(sides[0]) / len(sides[0]) - sum(sides[1]) / len(sides[1])
    expected.loss = options.get("coef", 1.0) * loss
    return expected


def row_ranges(case):
    begin = 0
    for batch in micro_batches(case):
        yield begin, begin + len(batch)
        begin += len(batch)


def by_position(row, weights):
    return [weights.get(t, 0.0) for t in range(len(row["ids"]))]


def expect_verifiable(case, model, frozen, found):
    options, ema = case.get("options", {}), case.get("ema", [0.0, 1.0, 0])
    entries, expected = [[] for _ in range(HEADS)], Expected(None)
    all_rows, all_values, all_x = [], [], []
    for index, batch in enumerate(micro_batches(case)):
        hidden = [model.trunk(row["ids"]) for row in batch]
        if options.get("control") == "random":
            weights, values = None, []
        else:
            if case.get("joint"):
                values = [model.values(h, options.get("stop_gradient", False)) for h in hidden]
            elif frozen:
                values = [frozen.values(frozen.trunk(row["ids"])).detach() for row in batch]
            else:
                values = [torch.tensor([math.nan if x is None else x for x in row["value"]]).double() for row in batch]
            xs = [td_errors(row, v.tolist(), options) for row, v in zip(batch, values)]
            weights = [{t: weigh(x, options) for t, x in row.items()} for row in whitened(xs, options, ema)]
            all_rows, all_values, all_x = all_rows + batch, all_values + values, all_x + [x for row in xs for x in row.values()]
            expected.values.append(torch.cat(values))
        if options.get("control"):
            weights = check_control(batch, weights, found["views"][index]["weight"], options)
        expected.weights.append([w for row, of_row in zip(batch, weights) for w in by_position(row, of_row)])
        for row, h, of_row in zip(batch, hidden, weights):
            for k in range(1, HEADS + 1):
                ce = model.nll(h, row["ids"], k)
                entries[k - 1] += [(of_row[t], ce[t - k]) for t in response(row) if t >= k]
    expected.loss, plain = head_loss(entries, options.get("loss_normalization", "tokens"))
    expected.metrics = {"train/weighted_ce_loss": expected.loss.item(), "train/unweighted_ce_loss": plain.item()}
    if case.get("joint"):
        loss = value_loss(all_rows, all_values, options.get("value_loss", {}))
        expected.metrics["train/value_loss"] = loss.item()
        expected.loss = expected.loss + options.get("value_coef", 0.5) * loss
    if all_x:
        x = torch.tensor(all_x, dtype=torch.double)
        expected.metrics |= {"td/mean": x.mean().item(), "td/std": x.std().item()}
        expected.ema = ema_after(ema, x)
    return expected


def ema_after(ema, x, momentum=0.1, warmup=10):
    count = ema[2] + 1
    keep = (count - 1) / warmup if count <= warmup else 1 - momentum
    spread = math.sqrt(max(x.pow(2).mean().item() - x.mean().item() ** 2, 1e-8))
    return [keep * ema[0] + (1 - keep) * x.mean().item(), keep * ema[1] + (1 - keep) * spread, count]


def check_control(batch, weights, given, options):
    """The control's own weights, once they are what it promises: drawn ones are taken as given."""
    taken, begin = [], 0
    for i, row in enumerate(batch):
        of_row = given[begin:begin + len(row["ids"])]
        begin += len(row["ids"])
        assert all(w == 0 for t, w in enumerate(of_row) if t not in response(row))
        taken.append({t: of_row[t] for t in response(row)})
        if options["control"] == "shuffled":
            near(sorted(taken[-1].values()), sorted(weights[i].values()), rel=1e-5)
        else:
            assert all(options.get("clip_min", .1) <= w <= options.get("clip_max", 5.0) for w in taken[-1].values())
    drawn = [w for row in taken for w in row.values()]
    assert len(set(drawn)) > len(drawn) // 2
    return taken


def expect_rho1(case, model, frozen, found):
    options, entries, expected = case.get("options", {}), [[] for _ in range(HEADS)], Expected(None)
    share, mode = options.get("k_percent", 0.6), options.get("mode", "signed")
    excess, thresholds = [[] for _ in range(HEADS)], [[] for _ in range(HEADS)]
    for batch in micro_batches(case):
        hidden, begins, begin = [], [], 0
        reference = []
        for row in batch:
            hidden.append(model.trunk(row["ids"]))
            begins.append(begin)
            begin += len(row["ids"])
            if frozen:
                with torch.no_grad():
                    reference.append([math.nan, *frozen.nll(frozen.trunk(row["ids"]), row["ids"], 1).tolist()])
            else:
                reference.append(row["ref_nll"])
        expected.selected.append([])
        for k in range(1, HEADS + 1):
            ce = [model.nll(h, row["ids"], k) for row, h in zip(batch, hidden)]
            places = [(b, t) for b, row in enumerate(batch) for t in response(row) if t >= k]
            p = [ce[b][t - k].item() for b, t in places]
            q = [reference[b][t] for b, t in places]
            excess[k - 1] += [a - b for a, b in zip(p, q)]
            if k == 1 and options.get("first_head", "always") == "always":
                chosen = set(range(len(places)))
            else:
                scores = {"signed": [a - b for a, b in zip(p, q)], "absolute": [abs(a - b) for a, b in zip(p, q)],
                          "difficult": q}[mode]
                chosen, threshold = selected_places(scores, share)
                thresholds[k - 1] += [threshold] if scores else []
            entries[k - 1] += [(float(i in chosen), ce[b][t - k]) for i, (b, t) in enumerate(places)]
            marks = [0.0] * begin
            for i in chosen:
                marks[begins[places[i][0]] + places[i][1]] = 1.0
            expected.selected[-1].append(marks)
    expected.loss, plain = head_loss(entries, options.get("loss_normalization", "tokens"))
    chosen, valid = (sum(w for head in entries for w, _ in head), sum(len(head) for head in entries))
    tokens = sum(len(response(row)) for batch in micro_batches(case) for row in batch)
    expected.metrics = {"train/unweighted_ce_loss": plain.item(), "train/selection_ratio": chosen / valid,
                        "train/avg_heads_per_pos": chosen / tokens}
    for k in range(HEADS):
        expected.metrics[f"rho1/head{k}_excess"] = sum(excess[k]) / len(excess[k])
        if thresholds[k]:
            expected.metrics[f"rho1/head{k}_threshold"] = sum(thresholds[k]) / len(thresholds[k])
    return expected


STAGES = {"baseline": expect_baseline, "critic": expect_critic, "verifiable": expect_verifiable, "rho1": expect_rho1}
