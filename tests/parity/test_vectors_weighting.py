"""Weights of tokens against independent references in NumPy: TD errors, GAE, whitening, the tracker, what rho1 selects."""
import math

import numpy as np
import pytest
from vectors import BOUND, NAN, near, random_logits, random_rows, response, valid_places


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
