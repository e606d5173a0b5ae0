"""Every stage in every mode that it has: starts, finishes, and leaves what other programs and later stages read."""
import math

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

FEW = ("training.max_steps=5", "training.eval_every_steps=5", "training.log_interval=1", "training.eval_at_start=false")
CONSTANT = ("training.lr_scheduler={type: constant}",)
LORA = ("training.use_lora=true", "training.lora={rank: 4, alpha: 8, dropout: 0.1, target_modules: [q_proj, w2], learning_rate: 7e-4}")
JOINT = ("training.value.source=joint", "models.value_model.checkpoint_path=null", "training.td.mode=td0")
FROM_FINAL = ("models.policy.path=runs/micro-baseline/final", "models.policy.init=pretrained")

MODES = {
    "baseline": ("baseline",),
    "baseline-lora": ("baseline", *FROM_FINAL, *LORA),
    "baseline-lora-heads": ("baseline", *FROM_FINAL, "training.use_lora=true",
                            "training.lora={scope: trunk, train_heads: true, learning_rate: 7e-4}"),
    "critic": ("critic",),
    "critic-frozen": ("critic", "training.backbone_frozen=true"),
    "critic-lora": ("critic", "training.backbone_frozen=true", *LORA),
    "critic-pairwise": ("critic", "training.value_loss={type: pairwise_ranking, bias_init: 0}"),
    "critic-lambda": ("critic", "training.value_loss={type: lambda_return}", "training.value_head.type=sigmoid"),
    "critic-rows": ("critic", "data_sampling.use_pairwise=false"),
    "verifiable-model": ("verifiable",),
    "verifiable-model-lora": ("verifiable", *LORA),
    "verifiable-model-weights": ("verifiable", "training.loss_normalization=weights"),
    "verifiable-joint": ("verifiable", *JOINT, "training.value.init_from=runs/micro-critic/final"),
    "verifiable-joint-lora": ("verifiable", *JOINT, *LORA),
    "verifiable-random": ("verifiable", "training.td.control=random"),
    "verifiable-shuffled": ("verifiable", "training.td.control=shuffled"),
    "rho1": ("rho1",),
    "rho1-lora": ("rho1", *FROM_FINAL, *LORA),
    "rho1-topk": ("rho1", "training.rho1={first_head: topk, mode: absolute}", "training.loss_normalization=weights_joint"),
}

COMMON = {"train/loss", "train/grad_norm", "train/grad_norm_pre_clip", "train/grad_clip_ratio", "train/learning_rate",
          "train/skipped_steps", "train/tokens_seen", "train/epoch_loss", "val/loss", "perf/tokens_per_sec", "perf/samples_per_sec",
          "perf/epoch_time_sec", "perf/step_time_ms", "perf/data_wait_ms", "system/host_memory_gb"}
PREDICTS = COMMON | {"val/perplexity"}
WEIGHTED = {"train/weighted_ce_loss", "train/unweighted_ce_loss", "train/loss_ratio", "val/weighted_ce_loss",
            "val/unweighted_ce_loss", *(f"weight/{name}" for name in ("mean", "std", "min", "max", "entropy"))}
SIDES = {f"{side}_{name}" for side in ("pos", "neg")
         for name in ("token_variance", "spikiness", "mean_abs_td", "position_corr")}
NAMES = {
    "baseline": PREDICTS,
    "critic": COMMON | {"train/value_head_lr", "train/pairwise_accuracy", "train/epoch_pairwise_accuracy",
                        "train/epoch_margin", "val/pairwise_accuracy", "val/auc"}
    | {f"{prefix}/{name}" for prefix in ("value", "val") for name in {"mean_pos", "mean_neg", "margin"} | SIDES},
    "verifiable-model": PREDICTS | WEIGHTED | {"train/epoch_weighted_ce", "train/epoch_unweighted_ce", "td/mean", "td/std",
                                             "td/ema_mean", "td/ema_std", "value/mse", "weight/clipping_ratio"},
    "verifiable-joint": PREDICTS | WEIGHTED | {"train/total_loss", "train/value_loss", "val/value_loss", "value/mse"},
    "rho1": PREDICTS | WEIGHTED
    | {"train/selection_ratio", "train/avg_heads_per_pos", "train/epoch_weighted_ce_loss", "train/epoch_unweighted_ce_loss",
       "train/epoch_excess_loss", "val/head0_ce_loss", "val/excess_loss"}
    | {f"rho1/head{head}_{name}" for head in range(4) for name in ("count", "ratio", "excess")}
    | {f"rho1/head{head}_threshold" for head in range(1, 4)},
    "critic-lambda": {"train/lambda"},
}


def check_learning_rates(run, mode):
    """Those of the groups that have a parameter that learns, and of no others."""
    training = yaml.safe_load((run.folder / "config.yaml").read_text())["training"]
    rates = {}
    if "lora" not in mode and mode != "critic-frozen" or "heads" in mode:
        rates["weights"] = float(training["learning_rate"])  # YAML 1.1 reads 5e-04 as text
    if "lora" in mode:
        rates["train/lora_lr"] = 7e-4
    if "critic" in mode or "joint" in mode:
        rates["train/value_head_lr"] = float(training["value_head"]["learning_rate"])
    shown = next(iter(rates.values()))
    assert run.values("train/learning_rate") == pytest.approx([shown] * 5)
    assert f"| lr: {shown:.2e} |" in run.stdout
    for name in ("train/lora_lr", "train/value_head_lr"):
        assert run.values(name) == pytest.approx([rates[name]] * 5 if name in rates else []), name


def check_histograms_of_heads(run, mode):
    """0 and 1 of what each head of rho1 selects; head 1 takes all unless it is told to select."""
    found = {line["name"]: line for line in run.histograms if line["step"] == 5}
    heads = [found[f"weight of head {head}"] for head in range(1, 5)]
    for head, histogram in enumerate(heads):
        selects = head > 0 or "topk" in mode
        assert sum(count > 0 for count in histogram["counts"]) == (2 if selects else 1)
        if selects:
            assert histogram["counts"][-1] / sum(histogram["counts"]) == pytest.approx(0.6, abs=0.01)
    assert sum(found["weight"]["counts"]) == sum(sum(histogram["counts"]) for histogram in heads)
    assert found["weight"]["counts"][0] > 0 and found["weight"]["counts"][-1] > 0


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_trains_to_its_end(workshop, mode):
    stage, *overrides = MODES[mode]
    run = workshop.train(f"micro/{stage}.yaml", mode, *FEW, *CONSTANT, *overrides)
    assert len(run.values("train/loss")) == 5
    assert all(math.isfinite(value) for point in run.points for name, value in point.items())
    assert run.values("train/skipped_steps")[-1] == 0
    assert run.values("train/grad_norm")[-1] > 0
    missing = NAMES.get(mode, set()) - run.names
    assert not missing, sorted(missing)
    adapters = "lora" in mode and "heads" not in mode
    assert (run.final / "adapter_model.safetensors").exists() == adapters
    assert (run.final / "model.safetensors").exists() != adapters
    assert (run.final / "value_head.safetensors").exists() == ("critic" in mode or "joint" in mode)
    check_learning_rates(run, mode)
    if stage == "rho1":
        check_histograms_of_heads(run, mode)


def test_epoch_numbers_are_those_of_all_steps(workshop):
    # One step a validation: the epoch is that step. Several: the mean lies between them.
    each = workshop.train("micro/verifiable.yaml", "epoch-1", *FEW, "training.eval_every_steps=1")
    assert each.values("train/epoch_loss") == pytest.approx(each.values("train/loss"), rel=1e-9)
    assert each.values("train/epoch_unweighted_ce") == pytest.approx(each.values("train/unweighted_ce_loss"), rel=1e-9)
    critic = workshop.train("micro/critic.yaml", "epoch-5", *FEW)
    losses = critic.values("train/loss")
    assert critic.values("train/epoch_loss") == pytest.approx([sum(losses) / 5], rel=1e-6)  # batches of one size
    assert critic.values("train/epoch_margin") == pytest.approx([sum(critic.values("value/margin")) / 5], rel=1e-6)


@pytest.mark.parametrize("strategy", ["NO_SHARD", "SHARD_GRAD_OP", "FULL_SHARD"])
def test_two_ranks_equal_one(workshop, strategy):
    """The same samples in one step, so the same numbers, however the model is spread."""
    same = (*FEW, "data_sampling.correct_ratio=1.0")
    alone = workshop.train("micro/verifiable.yaml", f"one-for-{strategy}", *same, "training.batch_size=8")
    two = workshop.train("micro/verifiable.yaml", f"two-{strategy}", *same, "training.batch_size=4",
                         f"distributed.fsdp.sharding_strategy={strategy}", ranks=2)
    for name in ["train/loss", "train/unweighted_ce_loss", "weight/mean", "val/loss", "train/epoch_loss"]:
        assert two.values(name) == pytest.approx(alone.values(name), rel=2e-4), name


# --- what a run leaves behind ----------------------------------------------------------------------------------------

def test_the_policy_loads_in_transformers(workshop):
    final = workshop.baseline.final
    model = AutoModelForCausalLM.from_pretrained(final, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(final)
    text = (workshop.folder / "demo/text.txt").read_text()[:200]
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        nll = torch.nn.functional.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="none")
    rows = workshop.folder / "ids.jsonl"
    rows.write_text('{"ids": %s}\n' % ids[0].tolist())
    score = workshop.wmtp.json_lines("score", "--model", final, "--data", rows, "--heads", 1, "--device", "cpu", "--dtype", "fp32")
    ours = torch.tensor([value for value in score[0]["nll"][0] if value is not None])
    assert torch.allclose(ours, nll, atol=2e-4)


def test_adapters_load_in_peft(workshop):
    from peft import PeftModel
    run = workshop.train("micro/baseline.yaml", "for-peft", *FEW, *FROM_FINAL, "training.use_lora=true",
                         "training.lora={scope: trunk, target_modules: [q_proj, v_proj]}")
    base = AutoModelForCausalLM.from_pretrained(workshop.baseline.final, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, run.final)
    adapted = sum(parameter.abs().sum().item() for name, parameter in model.named_parameters() if "lora_B" in name)
    assert adapted > 0


@pytest.mark.parametrize("source", ["baseline", "adapters"])
def test_finals_are_models_for_the_next_stage(workshop, source):
    final = "runs/micro-baseline/final"
    if source == "adapters":
        workshop.train("micro/baseline.yaml", "adapted", *FEW, *FROM_FINAL, *LORA)
        final = "runs/adapted/final"
    workshop.train("micro/rho1.yaml", f"next-{source}", *FEW, f"models.policy.path={final}",
                   "models.policy.init=pretrained", f"models.reference.path={final}")
    critic = workshop.train("micro/critic.yaml", f"critic-on-{source}", *FEW, f"models.policy.path={final}", *LORA,
                            "training.backbone_frozen=true")
    # An adapter cannot lie upon an adapter: then the whole model is written.
    assert (critic.final / "adapter_model.safetensors").exists() == (source == "baseline")
    workshop.train("micro/verifiable.yaml", f"weighed-{source}", *FEW, f"models.policy.path={final}",
                   f"models.value_model.checkpoint_path={critic.final}")


def test_adapters_of_drawn_weights_are_written_merged(workshop):
    run = workshop.train("micro/baseline.yaml", "drawn", *FEW, *LORA)
    assert (run.final / "model.safetensors").exists()
    refused = workshop.train("micro/baseline.yaml", "drawn-peft", *FEW, *LORA, "checkpoint.export_on_finish=peft", code=78)
    assert "whole base on disk" in refused.stderr


# --- plain next-token models on text ---------------------------------------------------------------------------------

@pytest.mark.parametrize("preset", ["micro-qwen3", "micro-llama"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_next_token_training_on_text(workshop, preset, ranks):
    run = workshop.train("ntp/text_local.yaml", f"text-{preset}-{ranks}", f"models.policy.path={preset}",
                         "training.n_epochs=4", "training.max_steps=15", "training.batch_size=4",
                         "training.log_interval=1", ranks=ranks)
    losses = run.values("train/loss")
    assert len(losses) == 15 and losses[-1] < 0.75 * losses[0], losses
    assert not [name for name in run.names if name.startswith("val/")]
    # Nothing stands before the first token of a block, from which it could be predicted.
    assert [token["m"] for token in run.samples[0]["tokens"]] == [0] + [1] * 127
    assert "128 tokens, 127 targets, every weight 1\n" in run.stdout
    model = AutoModelForCausalLM.from_pretrained(run.final, dtype=torch.float32)
    ids = AutoTokenizer.from_pretrained(run.final)("# Write a function", return_tensors="pt")["input_ids"]
    assert torch.isfinite(model(ids).logits).all()
