"""Float8 operands and products against torch's own conversion and torchao's Float8Linear, which emulates on the CPU."""
import importlib
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tolerance import within

ROOT = Path(__file__).resolve().parents[2]
FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
RECIPES = ["tensorwise", "rowwise"]


@pytest.fixture(scope="module")
def torchao():
    """A package of its own folder: torch comes from the environment of the tests."""
    extra = subprocess.run([ROOT / "tools/setup", "--print-extra"], capture_output=True, text=True, check=True).stdout.strip()
    sys.path.append(extra)
    yield importlib.import_module("torchao.float8")
    sys.path.remove(extra)


def converted(x, name):
    """ATen's conversion does not saturate."""
    largest = torch.finfo(FORMATS[name]).max
    return x.clamp(-largest, largest).to(FORMATS[name]).view(torch.uint8)


def codes(ask, x, name):
    return torch.tensor(ask("float8_codes", x=x, format=name)["codes"], dtype=torch.uint8)


@pytest.mark.parametrize("name", FORMATS)
def test_every_bf16_number_is_converted_as_torch_does(ask, name):
    x = torch.arange(-2**15, 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
    numbers = x[~x.isnan()]
    assert numbers.numel() == 2**16 - 2 * 127 and torch.equal(codes(ask, numbers, name), converted(numbers, name))


@pytest.mark.parametrize("name", FORMATS)
def test_fp32_numbers_are_converted_as_torch_does(ask, name):
    bits = np.random.default_rng(3).integers(0, 2**32, 50_000, dtype=np.uint32)
    middle = torch.linspace(-40, 40, 50_000)  # where most codes are
    x = torch.cat([torch.from_numpy(bits.view(np.float32)).nan_to_num(0), middle])
    assert torch.equal(codes(ask, x, name), converted(x, name))


def operands(seed, tokens, inputs=48, outputs=80):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, inputs, generator=generator) * torch.randn(tokens, 1, generator=generator).exp()
    return x, torch.randn(outputs, inputs, generator=generator) / 50, torch.randn(tokens, outputs, generator=generator) / 1e4


def linear(torchao, recipe, x, weight, dy):
    """Output and gradients of torchao's layer; in fp32, emulated."""
    config = torchao.Float8LinearConfig.from_recipe_name(recipe)
    emulated = type(config)(**{**vars(config), "emulate": True})
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data.copy_(weight)
    layer = torchao.convert_to_float8_training(torch.nn.Sequential(layer), config=emulated)
    given = x.clone().requires_grad_()
    y = layer(given)
    y.backward(dy)
    return {"y": y.detach(), "dx": given.grad, "dW": layer[0].weight.grad}


def form(values, recipe, name, axis):
    """Bytes [rows, contracted] and 1 / scale as torchao has them, with `axis` contracted."""
    utils = importlib.import_module("torchao.float8.float8_utils")
    granularity = importlib.import_module("torchao.float8.config").ScalingGranularity
    rowwise = recipe == "rowwise"
    scale = utils.tensor_to_scale(values, FORMATS[name],
                                  scaling_granularity=granularity.AXISWISE if rowwise else granularity.TENSORWISE,
                                  axiswise_dim=axis if rowwise else None, round_scales_to_power_of_2=rowwise)
    data = utils.to_fp8_saturated(values * scale, FORMATS[name]).view(torch.uint8)
    return (data if axis == 1 else data.t()), scale.reciprocal().flatten()


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("tokens", [1, 17, 32])
def test_operands_are_those_of_torchao(ask, torchao, recipe, tokens):
    given = dict(zip(("x", "W", "dy"), operands(tokens, tokens), strict=True))
    found = ask("float8_linear", recipe=recipe, **given)
    for which, values in given.items():
        name = "e5m2" if which == "dy" and recipe == "tensorwise" else "e4m3"
        for side, axis in (("rows", 1), ("columns", 0)):
            data, inverse = form(values, recipe, name, axis)
            mine = torch.tensor(found[which][side]["bytes"]).to(torch.uint8)
            assert mine.shape[1] % 16 == 0
            assert torch.equal(mine[:, :data.shape[1]], data) and not mine[:, data.shape[1]:].any()
            assert torch.equal(torch.tensor(found[which][side]["inverse"]).float(), inverse)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("tokens", [1, 17, 32])
def test_products_are_those_of_torchao(ask, torchao, recipe, tokens):
    """The operands are equal, so that sums of n products in another order, and scales before or after them, remain."""
    x, weight, dy = operands(100 + tokens, tokens)
    found = ask("float8_linear", recipe=recipe, x=x, W=weight, dy=dy)
    expected = linear(torchao, recipe, x, weight, dy)
    sizes = {"y": x.abs() @ weight.abs().t(), "dx": dy.abs() @ weight.abs(), "dW": dy.abs().t() @ x.abs()}
    terms = {"y": x.shape[1], "dx": dy.shape[1], "dW": tokens}
    for which, wanted in expected.items():
        error = (torch.tensor(found[which]) - wanted.double()).abs() / sizes[which].double()
        within(error.max().item(), 2 * 2**-24 * math.sqrt(terms[which] + 4), which)
