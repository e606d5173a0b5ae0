"""The stages' functions against independent references: NumPy for values, torch autograd for gradients.

wmtp_vectors answers one JSON line per question, in double precision. Inputs are random, with the edge cases of
each function among them: rows without response, one token, ties, NaN in masked places.
"""
import json
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tolerance
import torch

ROOT = Path(__file__).resolve().parents[2]

NAN = float("nan")
DOUBLE = torch.float64


class Vectors:
    """Asks the running tool; numbers come back as arrays, null as NaN."""

    def __init__(self, binary):
        self.process = subprocess.Popen([str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.asked = 0

    def reply(self, family, fields):
        self.asked += 1
        question = {"id": self.asked, "family": family, "in": {name: plain(value) for name, value in fields.items()}}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == self.asked
        return answer

    def __call__(self, family, **fields):
        answer = self.reply(family, fields)
        assert "out" in answer, answer
        return answer["out"]

    def error(self, family, **fields):
        answer = self.reply(family, fields)
        assert "out" not in answer, answer
        return answer["error"]


def plain(value):
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return value.tolist()
    return {name: plain(entry) for name, entry in value.items()} if isinstance(value, dict) else value


def array(value):
    value = value.detach().numpy() if isinstance(value, torch.Tensor) else value
    return np.array(value, dtype=float)  # None becomes NaN


@pytest.fixture(scope="module")
def ask():
    binary = Path(os.environ.get("WMTP_VECTORS", ROOT / "build/bin/wmtp_vectors"))
    if not binary.exists():
        pytest.fail(f"no tool at {binary}: build the tests, or set WMTP_VECTORS")
    vectors = Vectors(binary)
    yield vectors
    vectors.process.stdin.close()
    assert vectors.process.wait(timeout=60) == 0


BOUND = 8 * 2**-53 * math.sqrt(64)  # 8 u sqrt(n), as in tests/model/model_run.h, of sums over n = 64 values


def near(got, wanted, bound=BOUND):
    """To `bound` of the largest."""
    got, wanted = array(got), array(wanted)
    largest = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)
    tolerance.near(got, wanted, rel=bound, abs=bound * largest, frames=2)


def random_rows(rng, rows=7, length=9, gaps=False):
    """Values, mask, rewards. Row 0 has no response, row 1 one token, row 2 no prompt; NaN right of the response."""
    v, m = rng.normal(size=(rows, length)), np.zeros((rows, length), dtype=int)
    for b in range(1, rows):
        start = 0 if b == 2 else int(rng.integers(0, length - 1))
        stop = start + 1 if b == 1 else int(rng.integers(start + 1, length + 1))
        m[b, start:stop] = 1
        if gaps and stop - start > 3:
            m[b, start + 1 + int(rng.integers(0, stop - start - 2))] = 0
        v[b, stop:] = NAN
        if start > 1:
            v[b, :start - 1] = NAN  # only the last prompt position may be read
    v[0] = NAN
    return v, m, rng.integers(0, 2, rows).astype(float) + 0.25 * rng.integers(0, 2, rows)


def response(m):
    places = np.flatnonzero(m)
    return (places[0], places[-1]) if len(places) else None


def td0_row(v, m, reward, gamma, v_init):
    x = np.zeros(len(v))
    for t in np.flatnonzero(m):
        x[t] = reward - v[t] if t == response(m)[1] else gamma * v[t] - (v[t - 1] if t else v_init)
    return x


def gae_row(v, m, reward, gamma, lam, v_init, terminal):
    x = np.zeros(len(v))
    if response(m) is None:
        return x
    first, last = response(m)
    for t in np.flatnonzero(m):
        if terminal == "monte_carlo":
            x[t] = reward - v[t]
            continue
        for j in range(t, last + 1):  # the sum, not the recurrence
            before = v[j - 1] if j else v_init
            after = reward if terminal == "reward" and j == last else gamma * v[j]
            x[t] += (gamma * lam) ** (j - t) * (after - before)
    return x


def to_weights(x, m, beta, clip):
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(m == 1, np.clip(np.exp(x / beta), *clip), 0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("gamma", [1, 0.9])
def test_td0(ask, seed, gamma):
    v, m, reward = random_rows(np.random.default_rng(seed), gaps=seed % 2 == 1)
    if seed % 2:
        v = np.nan_to_num(v, nan=0.7)  # gaps are read
    out = ask("td0", v=v, m=m, R=reward, gamma=gamma, v_init=.5, beta=.9, clip=[.1, 5])
    x = np.stack([td0_row(v[b], m[b], reward[b], gamma, .5) for b in range(len(v))])
    near(out["x"], x)
    near(out["w"], to_weights(x, m, .9, (.1, 5)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("terminal,gamma,lam", [("value", 1, .95), ("value", .9, 0), ("value", 1, 1),
                                                ("reward", .97, .8), ("monte_carlo", 1, 1)])
def test_gae(ask, seed, terminal, gamma, lam):
    v, m, reward = random_rows(np.random.default_rng(seed), gaps=seed % 2 == 1)
    out = ask("gae", v=v, m=m, R=reward, gamma=gamma, **{"lambda": lam}, v_init=.4, terminal=terminal)
    near(out["x"], np.stack([gae_row(v[b], m[b], reward[b], gamma, lam, .4, terminal) for b in range(len(v))]))


def test_td_refuses(ask):
    one = dict(v=[[.1]], m=[[1]], R=[1])
    assert "monte_carlo" in ask.error("gae", **one, gamma=1, **{"lambda": .9}, terminal="monte_carlo")
    assert "gamma" in ask.error("td0", **one, gamma=0)
    assert "beta" in ask.error("td0", **one, beta=0)
    assert "clip" in ask.error("td0", **one, clip=[2, 1])
    assert "no family" in ask.error("td1")


@pytest.mark.parametrize("case", ["random", "flat", "one", "none", "large mean"])
def test_weights(ask, case):
    rng = np.random.default_rng(3)
    x, m = rng.normal(size=(3, 8)) * .5 + .2, rng.integers(0, 2, (3, 8))
    if case == "flat":
        x[:] = .1
    if case == "one":
        m[:] = 0
        m[1, 3] = 1
    if case == "none":
        m[:] = 0
    if case == "large mean":
        x += 1000
    x[m == 0] = NAN
    inside = x[m == 1]
    white = np.zeros_like(x)
    if len(inside) > 1 and inside.std(ddof=1) >= 1e-6 * max(1, abs(inside.mean())):
        white = (x - inside.mean()) / (inside.std(ddof=1) + 1e-8)
    near(ask("weights", x=x, m=m, beta=1, clip=[.1, 3], mean_std=None)["w"], to_weights(white, m, 1, (.1, 3)),
         BOUND * (1000**2 if case == "large mean" else 1))  # a variance is a difference of squares
    near(ask("weights", x=x, m=m, beta=.7, clip=[0, 3], mean_std=[.3, .2])["w"],
         to_weights((x - .3) / (.2 + 1e-8), m, .7, (0, 3)))


def test_weights_overflow_to_the_bounds(ask):
    out = ask("weights", x=[[1e6, -1e6, NAN]], m=[[1, 1, 0]], beta=1, clip=[.1, 3], mean_std=[0, 1])
    assert out["w"] == [[3, .1, 0]]


@pytest.mark.parametrize("warmup", [1, 3, 10])
def test_ema(ask, warmup):
    rng = np.random.default_rng(warmup)
    steps = [list(rng.normal(size=int(n))) for n in [3, 0, 1, 5, 2, 0, 4, 7, 1, 1, 6, 2, 3]]
    mean, std, count, wanted = 0, 1, 0, []
    for x in steps:
        if x:
            count += 1
            keep = (count - 1) / warmup if count <= warmup else .8
            mean = keep * mean + (1 - keep) * np.mean(x)
            std = keep * std + (1 - keep) * math.sqrt(max(np.var(x), 1e-8))
        wanted.append([mean, std, count])
    near(ask("ema", steps=steps, momentum=.2, warmup=warmup)["states"], wanted)


def losses_of(z, target):
    z = z - z.max()
    return np.log(np.exp(z).sum()) - z[target]


def random_logits(rng, rows=3, length=7, heads=3, vocabulary=5):
    n = rng.integers(1, length + 1, rows)
    n[0], n[-1] = length, 1
    a = (np.arange(length)[None] < n[:, None]).astype(int)
    y = np.where((rng.random((rows, length)) < .7) & (a == 1), rng.integers(0, vocabulary, (rows, length)), -100)
    z = 2 * rng.normal(size=(rows, length, heads, vocabulary))
    return z, y, a, ((a == 1) & (y != -100)).astype(int)


def valid_places(m, k):
    return [(b, i) for b in range(m.shape[0]) for i in range(m.shape[1] - k) if m[b, i + k]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mode", ["signed", "absolute", "difficult"])
@pytest.mark.parametrize("first_head", ["always", "topk"])
@pytest.mark.parametrize("share", [.6, 1, .25])
def test_rho1_select(ask, seed, mode, first_head, share):
    rng = np.random.default_rng(seed)
    z, y, a, m = random_logits(rng)
    ref_z = 2 * rng.normal(size=z.shape[:2] + z.shape[3:])
    if seed == 1:  # all scores equal: the order decides
        z[:], ref_z[:] = 0, 0
    if seed == 2:
        m[:] = 0
    for k in range(1, z.shape[2] + 1):  # what no head reads may be anything
        for b in range(z.shape[0]):
            for i in range(z.shape[1]):
                if (b, i) not in valid_places(m, k):
                    z[b, i, k - 1] = NAN
    w = np.zeros(z.shape[:3])
    for k in range(1, z.shape[2] + 1):
        places = valid_places(m, k)
        p = [losses_of(z[b, i, k - 1], y[b, i + k]) for b, i in places]
        q = [losses_of(ref_z[b, i + k - 1], y[b, i + k]) for b, i in places]
        score = {"signed": np.subtract(p, q), "absolute": np.abs(np.subtract(p, q)), "difficult": np.array(q)}[mode]
        count = 0 if not places else 1 + (len(places) - 1) * round(share * 1e6) // 10**6
        if k == 1 and first_head == "always":
            count = len(places)
        for chosen in np.argsort(-score, kind="stable")[:count]:
            w[places[chosen] + (k - 1,)] = 1
    near(ask("rho1_select", z=z, ref_z=ref_z, y=y, m=m, k_percent=share, mode=mode, first_head=first_head)["w"], w)


@pytest.mark.parametrize("share", [.6, .7, .1, 1, .000001])
def test_rho1_counts(ask, share):
    """Without ties the count is that of "score >= linear quantile" (exact in integers)."""
    millionths = round(share * 10**6)
    wanted = [0 if n == 0 else n - -(-(n - 1) * (10**6 - millionths) // 10**6) for n in range(0, 1001)]
    assert ask("rho1_counts", n=[0, 1000], k_percent=share)["counts"] == wanted


@pytest.mark.parametrize("share", [0, 1.5, -1])
def test_rho1_refuses(ask, share):
    assert "k_percent" in ask.error("rho1_counts", n=[0, 3], k_percent=share)


def reference_loss(z, y, m, w, normalization):
    """Loss, unweighted loss; z with autograd."""
    heads, plain_heads, all_s, all_w = [], [], 0, 0
    for k in range(1, z.shape[2] + 1):
        places = valid_places(m, k)
        if not places:
            continue
        ce = torch.stack([torch.logsumexp(z[b, i, k - 1], 0) - z[b, i, k - 1, y[b, i + k]] for b, i in places])
        weight = torch.tensor([1. if w is None else w[b, i + k] if w.ndim == 2 else w[b, i, k - 1] for b, i in places],
                              dtype=DOUBLE)
        total = (weight * ce).sum()
        divisor = len(places) if normalization == "tokens" else weight.sum()
        plain_heads.append(ce.mean())
        if divisor > 0:
            heads.append(total / divisor)
        all_s, all_w = all_s + total, all_w + weight.sum()
    if not plain_heads:
        return z.nan_to_num().sum() * 0, torch.zeros((), dtype=DOUBLE)
    loss = all_s / all_w if normalization == "weights_joint" else sum(heads) / len(heads)
    return loss, sum(plain_heads) / len(plain_heads)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weights", ["none", "2d", "3d"])
@pytest.mark.parametrize("normalization", ["tokens", "weights", "weights_joint"])
def test_mtp_ce(ask, seed, weights, normalization):
    rng = np.random.default_rng(seed)
    z, y, a, m = random_logits(rng, length=2 if seed == 3 else 7)
    if seed == 4:
        y[:], m[:] = -100, 0
    w = None
    if weights == "2d":
        w = np.where(m == 1, rng.uniform(.1, 5, m.shape), NAN)
    if weights == "3d":
        w = np.full(z.shape[:3], NAN)
        for k in range(1, z.shape[2] + 1):
            for b, i in valid_places(m, k):
                w[b, i, k - 1] = rng.integers(0, 2)
            for b, i in valid_places(m, k)[:1]:
                w[b, i, k - 1] = 1  # no head without any weight
    reference = torch.tensor(z, requires_grad=True)
    loss, unweighted = reference_loss(reference, y, m, w, normalization)
    loss.backward()
    dirty = z.copy()
    for k in range(1, z.shape[2] + 1):
        for b in range(z.shape[0]):
            for i in range(z.shape[1]):
                if (b, i) not in valid_places(m, k):
                    dirty[b, i, k - 1] = NAN
    out = ask("mtp_ce", z=dirty, y=y, a=a, w=w, normalization=normalization)
    near(out["L"], loss.item())
    near(out["Lu"], unweighted.item())
    near(out["dz"], reference.grad)


def test_mtp_ce_refuses_left_padding(ask):
    assert "prefix" in ask.error("mtp_ce", z=[[[[0, 1]], [[0, 1]]]], y=[[-100, 1]], a=[[0, 1]], w=None)


@pytest.mark.parametrize("seed", range(4))
def test_pairwise(ask, seed):
    rng = np.random.default_rng(seed)
    v_pos, m_pos, _ = random_rows(rng, rows=5, length=6, gaps=True)
    v_neg, m_neg, _ = random_rows(rng, rows=5, length=4 + seed)
    m_neg[1], v_neg[1] = (m_neg[3], v_neg[3]) if seed else (0, NAN)
    pos, neg = (torch.tensor(v, requires_grad=True) for v in (v_pos, v_neg))
    losses = []
    for p in range(5):
        if m_pos[p].any() and m_neg[p].any():
            gap = pos[p][m_pos[p] == 1].mean() - neg[p][m_neg[p] == 1].mean()
            losses.append(torch.nn.functional.softplus(-gap))
    loss = sum(losses) / len(losses)
    loss.backward()
    out = ask("pairwise", v_pos=v_pos, v_neg=v_neg, m_pos=m_pos, m_neg=m_neg)
    near(out["loss"], loss.item())
    near(out["dv_pos"], pos.grad)
    near(out["dv_neg"], neg.grad)


def lambda_targets(v, m, reward, gamma, lam):
    target = np.zeros(len(v))
    if response(m) is None:
        return target
    last = response(m)[1]
    for t in np.flatnonzero(m):  # mixture of n-step returns, bootstrapped from v and ending in the reward
        weights = [(1 - lam) * lam ** (j - t) for j in range(t, last)]
        target[t] = sum(w * gamma ** (j - t + 1) * v[j + 1] for j, w in zip(range(t, last), weights))
        target[t] += lam ** (last - t) * gamma ** (last - t) * reward
    return target


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reduction", ["sequence", "token"])
@pytest.mark.parametrize("kind,fn,gamma,lam", [("mse", "mse", 1, 1), ("lambda_return", "huber", 1, .95),
                                               ("lambda_return", "mse", .9, .5), ("lambda_return", "huber", .8, 0),
                                               ("lambda_return", "mse", 1, 1)])
def test_value_loss(ask, seed, reduction, kind, fn, gamma, lam):
    v, m, reward = random_rows(np.random.default_rng(seed), gaps=seed % 2 == 1)
    if kind == "mse":
        v[m == 0] = NAN
    target = np.stack([np.where(m[b] == 1, reward[b], 0) if kind == "mse" else
                       lambda_targets(v[b], m[b], reward[b], gamma, lam) for b in range(len(v))])
    values, delta = torch.tensor(v, requires_grad=True), .3
    per_row, tokens = [], []
    for b in range(len(v)):
        e = (values[b] - torch.tensor(target[b]))[m[b] == 1]
        e = torch.where(e.abs() < delta, e**2 / (2 * delta), e.abs() - delta / 2) if fn == "huber" else e**2
        tokens.append(e)
        if len(e):
            per_row.append(e.mean())
    loss = torch.cat(tokens).mean() if reduction == "token" else sum(per_row) / len(per_row)
    loss.backward()
    out = ask("value_loss", v=v, m=m, R=reward, type=kind, gamma=gamma, **{"lambda": lam}, loss_fn=fn, delta=delta,
              reduction=reduction)
    near(out["target"], target)
    near(out["loss"], loss.item())
    near(out["dv"], values.grad)


@pytest.mark.parametrize("kind", ["linear", "cosine", "constant"])
@pytest.mark.parametrize("decay", [500, 0, 7])
def test_lambda_schedule(ask, kind, decay):
    steps = [0, 1, 9, 10, 11, 13, 17, 260, 509, 510, 900]
    wanted = []
    for s in steps:
        f = (1. if s >= 10 else 0.) if decay == 0 else min(max((s - 10) / decay, 0), 1)
        wanted.append({"constant": .9, "linear": .9 + (.6 - .9) * f,
                       "cosine": .6 + .3 * (1 + math.cos(math.pi * f)) / 2}[kind])
    out = ask("lambda_schedule", type=kind, start=.9, end=.6, warmup_steps=10, decay_steps=decay, steps=steps)
    near(out["lambda"], wanted)


@pytest.mark.parametrize("seed", range(4))
def test_critic_metrics(ask, seed):
    rng = np.random.default_rng(seed)
    v, m, _ = random_rows(rng, rows=9, length=12)
    v[m == 0] = NAN
    m[3, 2:9], v[3, 2:9] = 1, .1  # constant
    out = ask("critic_metrics", v=v, m=m)
    for b in range(len(v)):
        inside, places = v[b][m[b] == 1], np.flatnonzero(m[b])
        d = np.abs(np.diff(inside))
        wanted = {"token_variance": inside.var() if len(inside) else NAN,
                  "mean_abs_td": d.mean() if len(d) else NAN,
                  "spikiness": d.max() / (d.mean() + 1e-8) if len(d) else NAN,
                  "position_corr": NAN}
        if len(inside) >= 3 and inside.max() > inside.min():
            wanted["position_corr"] = np.corrcoef(inside, places)[0, 1]
        for name, value in wanted.items():
            near(array(out[name])[b], value)


def head_reference(kind, params, u):
    x = u
    names = sorted({name.rsplit(".", 1)[0] for name in params}, key=lambda name: name.split(".")[-1])
    for place, name in enumerate(names):
        x = x @ params[f"{name}.weight"].T + params[f"{name}.bias"]
        if place + 1 < len(names):
            x = torch.nn.functional.gelu(x)
    return torch.sigmoid(x[..., 0]) if kind == "sigmoid" else x[..., 0]


HEADS = {"linear": {"linear": (16, 1)}, "sigmoid": {"linear": (16, 1)},
         "mlp": {"mlp.0": (16, 4), "mlp.3": (4, 2), "mlp.6": (2, 1)}}


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("shape", [(5, 16), (2, 3, 16)])
def test_value_head(ask, kind, shape):
    generator = torch.Generator().manual_seed(1)
    draw = lambda *sizes: torch.randn(*sizes, generator=generator, dtype=DOUBLE, requires_grad=True)
    params = {}
    for name, (inputs, outputs) in HEADS[kind].items():
        params[f"value_head.{name}.weight"], params[f"value_head.{name}.bias"] = draw(outputs, inputs), draw(outputs)
    u, upstream = draw(*shape), torch.randn(*shape[:-1], generator=generator, dtype=DOUBLE)
    v = head_reference(kind, params, u)
    (v * upstream).sum().backward()
    short = {name.removeprefix("value_head."): value for name, value in params.items()}
    for given in (params, short):
        out = ask("value_head", type=kind, params=given, u=u, upstream_grad=upstream)
        near(out["v"], v.detach())
        near(out["du"], u.grad)
        assert out["dparams"].keys() == given.keys()
        for name, value in given.items():
            near(out["dparams"][name], value.grad)


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 6), (1, 6)])
def test_lora_linear(ask, shape):
    generator = torch.Generator().manual_seed(2)
    draw = lambda *sizes: torch.randn(*sizes, generator=generator, dtype=DOUBLE, requires_grad=True)
    weight, a, b, x = draw(5, 6), draw(2, 6), draw(5, 2), draw(*shape)
    upstream = torch.randn(*shape[:-1], 5, generator=generator, dtype=DOUBLE)
    y = x @ weight.T + 3 / 2 * (x @ a.T) @ b.T
    (y * upstream).sum().backward()
    out = ask("lora_linear", W=weight, A=a, B=b, alpha=3, x=x, upstream_grad=upstream)
    merged = weight + 1.5 * b @ a
    for name, wanted in dict(y=y, dA=a.grad, dB=b.grad, dx=x.grad, merged=merged).items():
        near(out[name], wanted)


@pytest.mark.parametrize("limit", [1, 10, 0, None])
def test_grad_clip(ask, limit):
    rng = np.random.default_rng(0)
    grads = [rng.normal(size=(3, 4)), rng.normal(size=5), np.zeros((0,))]
    norm = math.sqrt(sum((g**2).sum() for g in grads))
    scale = min(1, limit / (norm + 1e-6)) if limit else 1
    out = ask("grad_clip", grads=[g.tolist() for g in grads], limit=limit)
    near(out["grad_norm_pre_clip"], norm)
    for got, grad in zip(out["grads"], grads):
        near(got, grad * scale)


@pytest.mark.parametrize("kind", ["constant", "cosine", "linear", "exponential"])
@pytest.mark.parametrize("total,warmup", [(10, 2), (4, 0), (1, 5), (100, 100)])
def test_lr_schedule(ask, kind, total, warmup):
    base, r, warm = 3e-4, .1, min(warmup, total - 1)
    wanted = []
    for s in range(total):
        q = (s - warm) / (total - warm)
        f = {"constant": 1, "cosine": r + (1 - r) * (1 + math.cos(math.pi * q)) / 2, "linear": 1 - (1 - r) * q,
             "exponential": r**q}[kind]
        wanted.append(base * ((s + 1) / (warm + 1) if s < warm else f))
    near(ask("lr_schedule", type=kind, base=base, steps_total=total, warmup_steps=warmup, min_lr_ratio=r,
             steps=list(range(total)))["lr"], wanted)
