"""What a run says before its first step: which parameters are trained, and what its data is."""
import json
import subprocess

import pytest


@pytest.mark.parametrize("lora", [False, True])
def test_what_is_trained_and_on_what(workshop, lora):
    name = f"start-{lora}"
    command = workshop.command("micro/baseline.yaml", name, "training.max_steps=1", "training.log_interval=1",
                               f"training.use_lora={str(lora).lower()}", "checkpoint.save_final=false",
                               "checkpoint.export_on_finish=none")
    # Both streams into one pipe, which keeps the order of what the program says.
    done = subprocess.run(command, cwd=workshop.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    before, step, _ = done.stdout.partition("Step 1/1 ")
    assert step
    told = json.loads((workshop.folder / "runs" / name / "environment.json").read_text())
    trained, total = told["trainable"]["trained"], told["trainable"]["total"]
    assert (0 < trained < total) if lora else trained == total
    assert f"trainable: {trained:,} of {total:,} parameters" in before
    assert all(line in before for line in told["trainable"]["parameters"])
    assert any("lora_A" in line for line in told["trainable"]["parameters"]) == lora
    for split in ("train", "validation"):
        data, rows = told["data"][split], (workshop.folder / f"demo/{split}.jsonl").read_text().splitlines()
        assert data["rows"] == len(rows)
        assert data["correct"] + data["incorrect"] == data["samples"]
        assert f"{split} rows: {len(rows)} (" in before
        assert f"{split} drawn: {data['correct']} correct, {data['incorrect']} incorrect sequences" in before
