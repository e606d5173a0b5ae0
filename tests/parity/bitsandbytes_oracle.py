"""bitsandbytes beside transformers and PEFT in a process of its own: they look once whether it is there, and it lies in a folder
(tools/setup --print-extra) that other tests do without. As a script it answers one JSON line per question:
{"do": name of a function below, "with": its arguments}."""
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Oracle:
    """Asks the running script."""

    def __init__(self):
        setup = subprocess.run([ROOT / "tools/setup", "--print-extra"], capture_output=True, text=True)
        assert setup.returncode == 0, setup.stderr
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "PYTHONPATH": setup.stdout.strip(), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "",
                                             "OMP_NUM_THREADS": "1"})

    def __getattr__(self, name):
        def ask(**arguments):
            question = {"do": name, "with": {key: str(value) if isinstance(value, Path) else value for key, value in arguments.items()}}
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            assert line, f"the process ended with {self.process.wait()}"
            answer = json.loads(line)
            assert "error" not in answer, answer["error"]
            return answer["out"]
        return ask

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def loaded(folder):
    """Computing in fp32, whatever the weights are stored in: not with the products in bf16 that some processors have for it."""
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(folder, device_map="cpu", dtype=torch.float32).eval()
    for module in model.modules():
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            module.support_avx512bf16_for_cpu = False
    return model


def quantised(folder, dtype, double):
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig
    how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=double,
                             bnb_4bit_compute_dtype=torch.float32)
    return AutoModelForCausalLM.from_pretrained(folder, quantization_config=how, device_map="cpu", dtype=getattr(torch, dtype))


def write_folder(source, out, dtype="bfloat16", double=True, shard="5GB"):
    quantised(source, dtype, double).save_pretrained(out, max_shard_size=shard)


def levels(values, out):
    """Both levels of every matrix of a file: bytes and scales, the scales after the second level, and the values back."""
    answer = {}
    for name, matrix in load_file(values).items():
        packed, first = functional.quantize_4bit(matrix, blocksize=64, quant_type="nf4", compress_statistics=False)
        _, nested = functional.quantize_4bit(matrix, blocksize=64, quant_type="nf4", compress_statistics=True)
        scales = functional.dequantize_blockwise(nested.absmax, nested.state2) + nested.offset
        answer |= {f"{name}.packed": packed.flatten(), f"{name}.absmax": first.absmax, f"{name}.nested_absmax": scales,
                   f"{name}.values": functional.dequantize_4bit(packed, first).float()}
    save_file(answer, out)


def weights(folder, out):
    """What bitsandbytes makes of every weight of a folder in 4 bits, in the dtype that its state names."""
    answer = {}
    for name, module in loaded(folder).named_modules():
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            answer[f"{name}.weight"] = functional.dequantize_4bit(module.weight.data, module.weight.quant_state).contiguous()
    save_file(answer, out)


def nll(folder, rows, adapter=None):
    """The losses of all predictions, row by row, and the largest logit."""
    model = loaded(folder)
    if adapter:
        from peft import PeftModel
        model = PeftModel.from_pretrained(model, adapter).eval()
    losses, largest = [], 0.0
    with torch.no_grad():
        for row in rows:
            logits = model(torch.tensor([row])).logits[0, :-1].double()
            largest = max(largest, logits.abs().max().item())
            losses.append((-torch.log_softmax(logits, -1).gather(1, torch.tensor(row[1:])[:, None])[:, 0]).tolist())
    return {"nll": losses, "largest": largest}


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    import bitsandbytes
    import torch
    from bitsandbytes import functional
    from safetensors.torch import load_file, save_file
    for line in sys.stdin:
        question = json.loads(line)
        try:
            reply = {"out": globals()[question["do"]](**question["with"])}
        except Exception as error:  # whatever it is, the test tells it
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)
