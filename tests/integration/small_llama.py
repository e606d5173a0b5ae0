"""A plain model as a user has one: a Llama folder that transformers has saved, small enough for a CPU, with its tokenizer; and rows."""
import json
import os

from hub_cache import SPECIAL, small_tokenizer

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
