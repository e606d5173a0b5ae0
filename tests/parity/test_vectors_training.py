"""Losses and what trains with them against independent references: NumPy for values, torch autograd for gradients."""
import math

import numpy as np
import pytest
import torch
from vectors import DOUBLE, NAN, array, near, random_logits, random_rows, response, valid_places


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
