"""A plain model as a user has one: a Llama folder that transformers has saved, small enough for a CPU, with its tokenizer; rows for
it, and what transformers makes of them."""
import json
import os

from hub_cache import SPECIAL, small_tokenizer

CHATML = "<|im_start|>user\n{instruction}<|im_end|>\n<|im_start|>assistant\n"  # the template that its tokenizer has tokens for
# Small weights: the rates that are right for trained models move them within a few steps.
INITIALIZER_RANGE = 2e-3

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def save_small_llama(folder, text):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=small_tokenizer(text), eos_token=SPECIAL[2], pad_token=SPECIAL[0])
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=48, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, initializer_range=INITIALIZER_RANGE, max_position_embeddings=512, tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None)).save_pretrained(folder)


def sums(first, count):
    """Rows of a small task: `count` sums, each with its answer worked out."""
    for i in range(first, first + count):
        a, b = i * 37 % 89, i * 53 % 97
        yield {"instruction": f"What is {a} + {b}?", "output": f"{a} + {b} = {a + b}"}


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def loss_in_transformers(model, tokenizer, rows):
    """The loss of a model that was exported in bf16, in fp32: mean over the tokens of the answers and their ends; and how far it may
    be from that of the run. Each weight w is rounded once, by 2^-9 |w| at most, which moves the loss by 2^-9 |w dL/dw|; the double
    of that also holds the squares, which are smaller by such a factor again."""
    import torch
    model = model.float()
    model.zero_grad()
    total = count = 0
    for row in rows:
        prompt = tokenizer(CHATML.format(**row), add_special_tokens=False).input_ids
        answer = tokenizer(row["output"] + "<|im_end|>", add_special_tokens=False).input_ids
        logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1:-1]
        total += torch.nn.functional.cross_entropy(logits, torch.tensor(answer), reduction="sum")
        count += len(answer)
    loss = total / count
    loss.backward()
    return loss.item(), 2 * 2**-9 * sum((weight * weight.grad).abs().sum().item() for weight in model.parameters())
