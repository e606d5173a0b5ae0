#!/usr/bin/env python3
"""make_corpus.py: writes the seed files of tests/fuzz/corpus and the word lists of tests/fuzz/dict, the same each time.

Small whole files, and for each rule of a format one file that breaks it. Files named found-* are inputs that once broke
a parser: fuzzing put them there and this script leaves them alone.
"""
import io
import json
import struct
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EVIL_NAMES = ["../x", "/etc/passwd", "a//b", "a/", ".", "..", "", "a\0b", "n" * 255, "n" * 256, "d/x"]
DEEP = 70


def write(target, name, data):
    path = HERE / "corpus" / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def write_all(target, files):
    for name, data in files.items():
        write(target, name, data)


def dumps(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# --- safetensors, index --------------------------------------------------------------------------------


def safetensors(header, num_data_bytes=0, length=None):
    text = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(num_data_bytes)


def tensor(name, dtype, shape, begin, end):
    return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}'


def make_safetensors():
    a, b = tensor("a", "F32", "[2,1]", 0, 8), tensor("b.weight", "BF16", "[3]", 8, 14)
    good = {
        "two": safetensors("{" + a + "," + b + "}", 14),
        "metadata": safetensors('{"__metadata__":{"format":"pt","k\\u00e9\\ud83d\\ude00":"\\n\\"\\\\"},' + a + "}  ", 8),
        "empty": safetensors("{}"),
        "no_elements": safetensors("{" + tensor("a", "I64", "[0,3]", 0, 0) + "}"),
        "scalar": safetensors("{" + tensor("a", "U8", "[]", 0, 1) + "}", 1),
        "fp8": safetensors("{" + tensor("a", "F8_E4M3", "[4]", 0, 4) + "}", 4),
    }
    bad = {
        "short": b"\1\0", "length_0": struct.pack("<Q", 0), "length_2_63": safetensors("{}", 0, 1 << 63),
        "length_beyond": safetensors("{}", 0, 3), "length_cap": safetensors("{}", 0, 100_000_001),
        "hole": safetensors("{" + a + "," + tensor("b", "U8", "[1]", 9, 10) + "}", 10),
        "overlap": safetensors("{" + a + "," + tensor("b", "U8", "[1]", 7, 8) + "}", 8),
        "trailing": safetensors("{" + a + "}", 9), "missing": safetensors("{" + a + "}", 7),
        "overflow": safetensors("{" + tensor("a", "F64", "[4294967296,4294967296]", 0, 0) + "}"),
        "negative": safetensors("{" + tensor("a", "U8", "[-1]", 0, 1) + "}", 1),
        "float": safetensors("{" + tensor("a", "U8", "[1.0]", 0, 1) + "}", 1),
        "huge": safetensors("{" + tensor("a", "U8", "[18446744073709551616]", 0, 1) + "}", 1),
        "twice": safetensors("{" + a + "," + a + "}", 8), "two_fields": safetensors('{"a":{"dtype":"U8","dtype":"U8"}}'),
        "rank_65": safetensors("{" + tensor("a", "U8", str([1] * 65).replace(" ", ""), 0, 1) + "}", 1),
        "dtype": safetensors("{" + tensor("a", "F99", "[1]", 0, 1) + "}", 1),
        "name": safetensors("{" + tensor("n" * 4097, "U8", "[1]", 0, 1) + "}", 1),
        "surrogate": safetensors('{"__metadata__":{"\\ud800":""}}'), "escape_cut": safetensors('{"\\u00'),
        "utf8": safetensors(b'{"\xc0\x80":1}'), "after": safetensors('{}x'),
        "deep": safetensors('{"__metadata__":{"a":{}}}'),
    }
    write_all("safetensors", good | bad)


def make_index():
    good = {"two": dumps({"metadata": {"total_size": 10}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}),
            "empty": dumps({"weight_map": {}}), "longest": dumps({"weight_map": {"a": "n" * 255}})}
    bad = {f"name_{i}": dumps({"weight_map": {"a": name}}) for i, name in enumerate(EVIL_NAMES) if name != "n" * 255}
    bad |= {"number": '{"weight_map":{"a":1}}', "list": "[]", "lacks": "{}", "twice": '{"weight_map":{"a":"x","a":"y"}}',
            "deep": '{"m":' + "[" * 9 + "]" * 9 + ',"weight_map":{}}', "cut": '{"weight_map":{"a":"x', "huge": "{\"a\":1e999}"}
    write_all("index", good | bad)


def make_quant_state():
    plain = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [192, 64]}
    nested = plain | {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.05157216265797615}
    most = 1 << 48
    good = {"plain": dumps(plain), "nested": json.dumps(nested), "half": dumps(nested | {"dtype": "float16"}),
            "float": dumps(plain | {"dtype": "float32", "shape": [1, 1]}), "largest": dumps(plain | {"shape": [3, most // 3]})}
    shapes = [[], [64], [1, 2, 3], "64", [0, 64], [-1, 64], [1.0, 64], [3, most // 3 + 1], [most, most], [1 << 63, 2], [1 << 64, 1], [1, None]]
    bad = {f"shape_{i}": dumps(plain | {"shape": shape}) for i, shape in enumerate(shapes)}
    changes = {"quant_type": ["fp4", 4], "blocksize": [128, 64.0, "64", -64], "dtype": ["float64", "uint8", None], "stranger": [1],
               "nested_blocksize": [64, None], "nested_dtype": ["float16"], "nested_offset": ["0", None, 1e39]}
    bad |= {f"{key}_{i}": dumps(nested | {key: value}) for key, values in changes.items() for i, value in enumerate(values)}
    bad |= {f"lacks_{key}": dumps({name: value for name, value in nested.items() if name != key}) for key in nested}
    bad |= {"list": "[]", "nothing": "", "cut": dumps(nested)[:40], "twice": '{"blocksize":64,"blocksize":64}', "nan": '{"nested_offset":NaN}',
            "nul": dumps(plain) + "\0", "long": dumps(plain) + " " * 5000, "deep": '{"shape":[[[[1]]]]}', "utf8": b'{"quant_type":"\xff"}'}
    write_all("quant_state", good | bad)


# --- pickle, zip ---------------------------------------------------------------------------------------


def text_op(text):
    raw = text.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def global_op(module, name):
    return f"c{module}\n{name}\n".encode()


def tensor_op(key, numel, size, stride, offset=0, storage="FloatStorage"):
    def tuple_of(values):
        return b"(" + b"".join(b"J" + struct.pack("<i", v) for v in values) + b"t"
    return (global_op("torch._utils", "_rebuild_tensor_v2") + b"((" + text_op("storage") + global_op("torch", storage) +
            text_op(key) + text_op("cpu") + b"K" + bytes([numel]) + b"tQK" + bytes([offset]) + tuple_of(size) +
            tuple_of(stride) + b"\x89" + global_op("collections", "OrderedDict") + b")RtR")


def state_dict(pairs, ordered=False):
    start = global_op("collections", "OrderedDict") + b")R" if ordered else b"}"
    return b"\x80\x02" + start + b"q\0(" + b"".join(text_op(name) + value for name, value in pairs) + b"u."


def pickles():
    weight = tensor_op("0", 6, (2, 3), (3, 1))
    good = {
        "state": state_dict([("weight", weight), ("bias", tensor_op("1", 3, (3,), (1,)))]),
        "ordered": state_dict([("w", weight), ("transposed", tensor_op("0", 6, (3, 2), (1, 3)))], True),
        "training": state_dict([("epoch", b"K\3"), ("loss", b"G" + struct.pack(">d", 1.5)), ("none", b"N"),
                                ("model_state_dict", b"}(" + text_op("w") + weight + b"u"), ("list", b"](K\1K\2e"),
                                ("one", b"]K\1a"), ("tuples", b"K\1\x85K\1K\2\x86K\1K\2K\3\x87\x87"),
                                ("long", b"\x8a\x08" + struct.pack("<q", -5)), ("dict", b"}" + text_op("k") + b"\x88s")]),
        "protocol_4": b"\x80\x04\x95\x0b\0\0\0\0\0\0\0}\x94\x8c\x01a\x94K\1sh\0\x85.",
        "stack_global": b"\x80\x04\x8c\x0bcollections\x8c\x0bOrderedDict\x93)R.",
        "memo": b"\x80\x02]q\1(h\1r\1\0\0\1j\1\0\0\1e.",
        "size": b"\x80\x02" + global_op("torch", "Size") + b"K\1\x85\x85R.",
        "parameter": b"\x80\x02" + global_op("torch._utils", "_rebuild_parameter") + b"(" + weight + b"\x88NtR.",
        "build": state_dict([], True)[:-1] + b"}b.",
    }
    bad = {
        "os_system": b"\x80\x02" + global_op("os", "system") + text_op("touch canary") + b"\x85R.",
        "eval": b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.",
        "inst": b"\x80\x02(ios\nsystem\n.", "obj": b"\x80\x02(No.", "newobj": b"\x80\x02N)\x81.", "ext": b"\x80\x02\x82\1.",
        "build_other": b"\x80\x02]}b.", "persid": b"\x80\x02Pa\n.", "bad_persid": b"\x80\x02NQ.",
        "deep": b"\x80\x02" + b"]" * 120 + b"a" * 119 + b".", "tuples_deep": b"\x80\x02N" + b"\x85" * 120 + b".",
        "stack": b"\x80\x02" + b"N" * 10_001, "memo_bomb": b"\x80\x02]q\0" + b"(h\0h\0h\0h\0e" * 50 + b"e.",
        "long": b"\x80\x02\x8a\x09" + b"\xff" * 9 + b".", "text_cut": b"\x80\x02X\xff\xff\xff\xffab", "line_cut": b"\x80\x02cos",
        "frame": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.", "protocol_0": b"(lp0\n.", "protocol_6": b"\x80\x06N.",
        "no_mark": b"\x80\x02t.", "empty": b"\x80\x02.", "two_left": b"\x80\x02NN.", "utf8": b"\x80\x02\x8c\x02\xc0\x80.",
        "reach": state_dict([("w", tensor_op("0", 6, (2, 4), (3, 1)))]),
        "overlapping": state_dict([("w", tensor_op("0", 6, (100,), (0,)))]),
        "stride_overflow": state_dict([("w", tensor_op("0", 6, (2147483647,) * 3, (2147483647,) * 3))]),
        "strides": state_dict([("w", tensor_op("0", 6, (2, 3), (3,)))]),
        "storage_type": state_dict([("w", tensor_op("0", 6, (2, 3), (3, 1), storage="Size"))]),
        "offset": state_dict([("w", tensor_op("0", 6, (0,), (1,), offset=7))]),
    }
    return good, bad


def archive(entries, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as zip_file:
        for name, data in entries.items():
            zip_file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, compression)
    return buffer.getvalue()


def patched(data, signature, offset, new):
    """`data` with `new` at `offset` of its last record that begins with `signature`."""
    at = data.rindex(signature) + offset
    return data[:at] + new + data[at + len(new):]


def make_pickles():
    good, bad = pickles()
    write_all("pickle", good | bad)
    entries = {"m/data.pkl": good["state"], "m/byteorder": b"little", "m/data/0": bytes(24), "m/data/1": bytes(12),
               "m/version": b"3\n"}
    whole = archive(entries)
    end, central, local = b"PK\5\6", b"PK\1\2", b"PK\3\4"
    write_all("torch_zip", {
        "whole": whole, "comment": patched(whole, end, 20, b"\2\0") + b"hi", "protocol_4": archive({"m/data.pkl": good["protocol_4"]}),
        "no_pickle": archive({"m/version": b"3"}), "os_system": archive({"m/data.pkl": bad["os_system"]}),
        "deflated": archive({"m/data.pkl": good["state"] * 9}, zipfile.ZIP_DEFLATED),
        "encrypted": patched(whole, central, 8, b"\1"), "crc": patched(whole, central, 16, b"\0\0\0\0"),
        "outside": patched(whole, central, 42, b"\xf0\xff\xff\xff"), "size": patched(whole, central, 20, b"\xff\xff\0\0" * 2),
        "wide": patched(whole, central, 20, b"\xff\xff\xff\xff" * 2), "overlap": patched(whole, central, 42, bytes(4)),
        "entries": patched(whole, end, 10, b"\xff\xff"), "directory": patched(whole, end, 16, b"\xff\xff\xff\x7f"),
        "local_name": patched(whole, local, 30, b"X"), "big_endian": archive({**entries, "m/byteorder": b"big"}),
        "two_folders": archive({**entries, "x/y": b""}), "no_folder": archive({"data.pkl": b"."}),
        "script": archive({"m/constants.pkl": b""}), "cut": whole[:-1], "no_end": whole[:60], "bare": good["state"],
        "locator": whole[:whole.rindex(end)] + b"PK\6\7" + bytes(4) + struct.pack("<Q", 1 << 62) + bytes(4) + whole[whole.rindex(end):],
        "tar": bytes(257) + b"ustar" + bytes(30), "empty_zip": archive({}), "nothing": b"",
    })


# --- tokenizers ----------------------------------------------------------------------------------------


def tokenizer_json(model=None, **parts):
    vocab = {c: i for i, c in enumerate("abehlowrd \u0120\u2581")}
    merges = [["h", "e"], ["l", "l"], ["he", "ll"]]
    for left, right in merges:
        vocab[left + right] = len(vocab)
    vocab |= {"<0xC3>": len(vocab), "<0xA9>": len(vocab) + 1, "<unk>": len(vocab) + 2}
    special = {"id": len(vocab), "content": "<|im_start|>", "special": True, "single_word": False, "lstrip": True,
               "rstrip": False, "normalized": False}
    whole = {"version": "1.0", "added_tokens": [special], "normalizer": None, "pre_tokenizer": None, "decoder": None,
             "post_processor": None, "model": {"type": "BPE", "vocab": vocab, "merges": merges, "unk_token": "<unk>"}}
    whole["model"] |= model or {}
    return dumps(whole | parts)


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def make_tokenizer_json():
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    sequence = {"type": "Sequence", "pretokenizers": [split("\\x20+|[^\\s\\p{L}\\x{e9}-\\xff]|\\p{N}{1,3}|(?i:'s)|\\w+(?!\\S)"), byte_level]}
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<unk>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [], "special_tokens": {"<unk>": {"id": "<unk>", "ids": [17], "tokens": ["<unk>"]}}}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    llama = {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, replace, {"type": "NFKC"}]},
             "decoder": {"type": "Sequence", "decoders": [replace | {"pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                                                          {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}
    good = {
        "plain": tokenizer_json(), "byte_level": tokenizer_json(pre_tokenizer=byte_level, decoder=byte_level),
        "patterns": tokenizer_json(pre_tokenizer=sequence, post_processor=template, normalizer={"type": "NFC"}),
        "llama": tokenizer_json({"byte_fallback": True, "fuse_unk": True}, **llama),
        "affixes": tokenizer_json({"continuing_subword_prefix": "", "end_of_word_suffix": "", "ignore_merges": True}),
        "longest": tokenizer_json({"vocab": {"n" * 4096: 0}, "merges": [], "unk_token": None}, added_tokens=[]),
        "string_merges": tokenizer_json({"merges": ["h e", "l l"]}),
        "digits": tokenizer_json(pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Isolated"}]}),
        "metaspace": tokenizer_json(pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}),
    }
    bad = {
        "pattern_hex_cut": tokenizer_json(pre_tokenizer=split("a\\x2")), "pattern_brace": tokenizer_json(pre_tokenizer=split("\\p{L")),
        "pattern_class": tokenizer_json(pre_tokenizer=split("[a")), "pattern_slow": tokenizer_json(pre_tokenizer=split("(a+)+(b+)+\\z|(?:h|he|hel)*\\d")),
        "pattern_long": tokenizer_json(pre_tokenizer=split("a" * 17_000)), "pattern_back": tokenizer_json(pre_tokenizer=split("(a)\\1")),
        "same_id": tokenizer_json({"vocab": {"a": 0, "b": 0}, "merges": []}), "id_huge": tokenizer_json({"vocab": {"a": 1 << 31}}),
        "id_negative": tokenizer_json({"vocab": {"a": -1}}), "id_float": tokenizer_json({"vocab": {"a": 1.0}}),
        "merge_unknown": tokenizer_json({"merges": [["q", "q"]]}), "merge_short": tokenizer_json({"merges": ["h"]}),
        "token_long": tokenizer_json({"vocab": {"n" * 4097: 0}}), "unigram": tokenizer_json({"type": "Unigram"}),
        "added_twice": tokenizer_json(added_tokens=[{"id": 20, "content": "x"}] * 2), "added_empty": tokenizer_json(added_tokens=[{"id": 20, "content": ""}]),
        "version": tokenizer_json(version="2.0"), "template": tokenizer_json(post_processor=template | {"single": []}),
        "deep": "[" * DEEP + "]" * DEEP, "twice": '{"model":1,"model":2}', "cut": tokenizer_json()[:200], "list": "[]",
        "sequences": tokenizer_json(normalizer=nested({"type": "NFC"}, "normalizers", 12)), "unk": tokenizer_json({"unk_token": "nowhere"}),
        "utf8": b'{"model":"\xed\xa0\x80"}',
    }
    # One part alone: nothing is left to read behind it, and mutations meet it more often.
    alone = {f"alone_{i}": dumps({"pre_tokenizer": split(pattern)}) for i, pattern in enumerate(
        ["a\\x41", "\\x{e9}", "\\p{L}\\P{Lu}", "[^a-c\\s]", "(?i:b)+", "\\d{1,3}", "a|b*?", "(?<=a)b\\z"])}
    alone |= {f"alone_{kind}": dumps({kind: value}) for kind, value in llama.items()}
    write_all("tokenizer_json", good | bad | alone)


def nested(inner, key, depth):
    for _ in range(depth):
        inner = {"type": "Sequence", key: [inner]}
    return inner


def varint(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field_number, value):
    return varint(field_number << 3) + varint(value)


def piece(text, score, kind):
    raw = text if isinstance(text, bytes) else text.encode()
    return field(1, field(1, raw) + varint(2 << 3 | 5) + struct.pack("<f", score) + number(3, kind))


def make_tokenizer_model():
    pieces = (piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("\u2581he", -1, 1) + piece("he", -2, 1) +
              piece("\u2581", -3, 1) + b"".join(piece(c, -4 - i, 1) for i, c in enumerate("helowrd")) + piece("<t>", 0, 4) + piece("un", -9, 5))
    fallback = b"".join(piece(f"<0x{i:02X}>", 0, 6) for i in range(256))
    bpe = field(2, number(3, 2))
    spec = field(2, number(3, 2) + number(35, 1) + field(44, b" ?? ") + field(46, b"<s>") + field(47, b"</s>"))
    normalizer = field(3, number(3, 0) + number(4, 1) + number(5, 1))
    write_all("tokenizer_model", {
        "plain": pieces + bpe, "normalizer": pieces + bpe + normalizer, "fallback": pieces + fallback + spec,
        "unknown_fields": pieces + bpe + field(99, b"x") + number(98, 7) + varint(97 << 3 | 1) + bytes(8),
        "unigram": pieces + field(2, number(3, 1)), "no_spec": pieces, "no_pieces": bpe, "nothing": b"",
        "nan": piece("a", float("nan"), 1) + bpe, "infinite": piece("a", float("inf"), 1) + bpe, "kind": piece("a", 0, 7) + bpe,
        "empty_piece": piece("", 0, 1) + bpe, "long_piece": piece("n" * 4097, 0, 1) + bpe, "utf8": piece(b"\xc0\x80", 0, 1) + bpe,
        "same_piece": pieces + piece("h", 0, 1) + bpe, "two_unknown": pieces + piece("<u>", 0, 2) + bpe, "no_unknown": piece("a", 0, 1) + bpe,
        "group": pieces + bpe + varint(9 << 3 | 3), "wire_7": pieces + bpe + varint(9 << 3 | 7), "field_0": b"\0\0",
        "varint_cut": pieces + bpe + b"\x80", "varint_long": pieces + bpe + varint(9 << 3) + b"\xff" * 11, "cut": (pieces + bpe)[:-1],
        "beyond": field(1, b"a")[:1] + varint(1 << 62), "wrong_wire": number(1, 5) + bpe, "charsmap": pieces + bpe + field(3, field(2, b"x")),
        "bytes_missing": pieces + piece("<0x00>", 0, 6) + spec,
    })


# --- configuration, rows -------------------------------------------------------------------------------

HEAD = "experiment: {name: run, stage: baseline}\nmodels: {policy: {path: micro}}\ndataset: {train: data.jsonl}\n"


def make_yaml():
    good = {
        "least": HEAD + "training: {learning_rate: 1e-5}\n",
        "block": "experiment:\n  name: \"r\\n\\u00e9\"\n  stage: 'baseline'\nmodels:\n  policy:\n    path: ${env:NOWHERE:-micro}\n"
                 "dataset:\n  train: |\n    data.jsonl\ntraining:\n  learning_rate: &lr 0.00001  # so\n  max_grad_norm: 0x10\n",
        "lists": HEAD + "training: {learning_rate: 1e-5, optimizer: {betas: [0.9, 0.95]}}\n",
        "references": HEAD + "training: {learning_rate: 1e-5}\ntracking: {jsonl: true}\nlauncher: {nodes: 1}\n",
        "bom": b"\xef\xbb\xbf" + (HEAD + "training: {learning_rate: 1e-5}\n").encode(),
    }
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 10) + "]\n" for i in range(1, 10))
    # Keys that take lists, each made of many copies of the one before.
    copies = HEAD + "training: {learning_rate: 1e-5}\nruntime: {seed: [" + "x, " * 2000 + "x]}\ntracking: {jsonl: [" + \
        "'${runtime.seed}', " * 2000 + "x]}\ncheckpoint: {resume: ['${tracking.jsonl}', '${tracking.jsonl}']}\n"
    bad = {
        "laughs": laughs, "copies": copies, "itself": "a: &a [*a]\n", "brackets": "a: " + "[" * 10_000, "twice": HEAD + "training: {learning_rate: 1, learning_rate: 2}\n",
        "tag": "a: !!python/object:os.system x\n", "merge": "a: &a {b: 1}\nc: {<<: *a}\n", "documents": "a: 1\n---\nb: 2\n",
        "circle": HEAD + "training: {learning_rate: '${training.max_grad_norm}', max_grad_norm: '${training.learning_rate}'}\n",
        "unclosed": HEAD + 'training: {learning_rate: "1\n', "brace": HEAD + "training: {learning_rate: '${x'}\n", "nan": HEAD + "training: {learning_rate: .nan}\n",
        "number": HEAD + "training: {learning_rate: 1e999}\n", "unknown": HEAD + "trainning: {lr: 1}\n", "tab": "a:\n\tb: 1\n", "control": b"a: \x01\n",
        "utf8": b"a: \xed\xa0\x80\n", "utf8_cut": b"a: \xe2\x96", "question": "? [a]\n: b\n", "aliases": "a: &a 1\nb: [" + "*a, " * 101 + "]\n",
        "nothing": "", "scalar": "5", "deep": "a:\n" + "".join("  " * (i + 1) + "a:\n" for i in range(40)),
    }
    write_all("yaml", good | bad)


def make_jsonl():
    row = {"instruction": "Add", "input": "1 2", "output": "3", "task_id": "t_correct_1", "is_correct": 0.5,
           "metadata": {"difficulty": 3, "problem_id": "p\u00e9"}, "other": [1, {"a": None}, True, -2.5e-3]}
    line = dumps(row)
    lines = {
        "crlf": line + "\r\n" + line + "\r\n", "bom": "\ufeff" + line + "\n", "no_feed": line, "blank": "\n \t\n" + line + "\n",
        "text": '{"text":"a\\u00e9\\ud83d\\ude00\\n\\/"}\n', "array": "[1]\n", "word": "null\n", "cut": line[:40], "escape_cut": '{"a":"\\u00',
        "nul": b'{"a":"\0"}\n', "nul_escape": '{"instruction":"a\\u0000","output":""}\n', "twice": '{"a":1,"a":2}\n', "twice_deep": '{"a":[{"b":1,"b":2}]}\n',
        "twice_escaped": '{"a":1,"\\u0061":2}\n', "2_64": '{"a":18446744073709551616}\n', "2_63": '{"a":-9223372036854775809}\n', "1e999": '{"a":1e999}\n',
        "-1e999": '{"a":-1e999}\n', "1e99999": '{"a":1e99999}\n', "1e-99999": '{"a":1e-99999,"instruction":1}\n', "leading_zero": '{"a":01}\n', "dot": '{"a":1.}\n', "plus": '{"a":+1}\n',
        "deep_64": "[" * 64 + "]" * 64 + "\n", "deep_65": "[" * 65 + "]" * 65 + "\n", "brackets": "[" * 5000 + "\n", "objects": '{"a":' * 300 + "\n",
        "surrogate": '{"a":"\\ud800"}\n', "low": '{"a":"\\udc00"}\n', "utf8": b'{"a":"\xc0\x80"}\n', "utf8_surrogate": b'{"a":"\xed\xa0\x80"}\n',
        "utf8_cut": b'{"a":"\xf0\x9f"}\n', "control": '{"a":"\t"}\n', "after": "{} x\n", "long": '{"instruction":"' + "n" * 1100 + '"}\n',
        "wrong_types": '{"instruction":1,"output":[],"is_correct":"x","metadata":[]}\n', "reward": '{"instruction":"a","output":"b","is_correct":2}\n',
        "difficulty": '{"instruction":"a","output":"b","metadata":{"difficulty":99999}}\n', "many_keys": dumps({f"k{i}": i for i in range(40)} | row) + "\n",
    }
    write_all("jsonl", lines)


# --- checkpoints, caches -------------------------------------------------------------------------------


def shard(path, boxes):
    return {"path": path, "bytes": 100, "sha256": "a" * 64, "header_crc32c": "0badcafe",
            "tensors": {name: {"offsets": offsets, "shape": shape, "crc32c": "00000001"} for name, offsets, shape in boxes}}


def rank_part(**changes):
    part = {"state": "s", "model": {"a": {"dtype": "F32", "shape": [4, 3]}, "b": {"dtype": "BF16", "shape": [5]}},
            "optim": {"m": {"dtype": "F32", "shape": [5]}},
            "files": [shard("model/1", [("a", [0, 0], [2, 3]), ("b", [0], [5])]), shard("model/2", [("a", [2, 0], [1, 2])]),
                      shard("model/3", [("a", [2, 2], [1, 1])]), shard("model/4", [("a", [3, 0], [1, 3])]), shard("optim/1", [("m", [0], [5])])]}
    return part | changes


def manifest(**changes):
    part = rank_part()
    whole = {"format": "wmtp-checkpoint", "version": 1, "model": "tiny", "step": 7, "kind": "sharded", "run_id": "r1",
             "created": "2026-01-01T00:00:00.000Z", "wmtp": "0.1.0", "world_size": 2, "strategy": "FULL_SHARD",
             "fingerprints": {"config": "c", "data": "d", "tokenizer": "t", "base": "b"},
             "tensors": {"model": part["model"], "optim": part["optim"]},
             "files": part["files"] + [{"path": "trainer_state.json", "bytes": 9, "sha256": "b" * 64, "crc32c": "00000002"}]}
    return dumps(whole | changes)[:-1] + ","


def bad_boxes():
    whole = rank_part()["files"]
    return {"outside": [shard("model/1", [("a", [3, 0], [2, 3])])], "negative": [shard("model/1", [("a", [-1, 0], [2, 3])])],
            "short_shape": [shard("model/1", [("a", [0, 0], [2])])], "short_offsets": [shard("model/1", [("a", [0], [2, 3])])],
            "three": [shard("model/1", [("a", [0, 0, 0], [1, 1, 1])])], "ragged": [shard("model/1", [("a", [0, 1], [2, 2])])],
            "overlap": whole + [shard("model/5", [("a", [0, 0], [1, 3])])], "hole": whole[1:], "unknown": [shard("model/1", [("q", [0], [1])])],
            "no_boxes": [shard("model/1", [])], "huge": [shard("model/1", [("a", [0, 0], [9223372036854775807, 9223372036854775807])])]}


def least_part():
    return {"state": "", "model": {"a": {"dtype": "U8", "shape": [4]}}, "optim": {},
            "files": [shard("model/1", [("a", [0], [2])]), shard("model/2", [("a", [2], [2])])]}


def make_manifests():
    least = least_part()
    evil = {f"path_{i}": manifest(files=[shard(name, [("a", [0, 0], [4, 3])])]) for i, name in enumerate(EVIL_NAMES)}
    write_all("manifest", evil | {f"box_{name}": manifest(files=files) for name, files in bad_boxes().items()} | {
        "whole": manifest(), "least": manifest(tensors={"model": least["model"], "optim": {}}, files=least["files"]), "lora": manifest(kind="lora"), "newer": manifest(version=2), "foreign": manifest(format="other"), "kind": manifest(kind="x"),
        "step": manifest(step=-1), "world": manifest(world_size=18446744073709551615), "extra": manifest(more=1), "empty": "{", "nothing": "",
        "no_tensors": manifest(tensors={"model": {}, "optim": {}}, files=[]), "both": manifest(tensors={"model": {"a": {"dtype": "F32", "shape": [1]}},
                                                                                                       "optim": {"a": {"dtype": "F32", "shape": [1]}}}),
        "overflow": manifest(tensors={"model": {"a": {"dtype": "F64", "shape": [4294967296, 4294967296]}}, "optim": {}}),
        "case": manifest(files=[shard("model/A", [("a", [0, 0], [4, 3])]), shard("model/a", [("b", [0], [5])])]), "deep": "[" * DEEP})
    write_all("rank_part", {f"box_{name}": dumps(rank_part(files=files)) for name, files in bad_boxes().items()} | {
        "whole": dumps(rank_part()), "least": dumps(least), "empty": dumps({"state": "", "model": {}, "optim": {}, "files": []}), "lacks": "{}", "list": "[]", "extra": dumps(rank_part(x=1)),
        "dtype": dumps(rank_part(model={"a": {"dtype": "X", "shape": [1]}})), "crc": dumps(rank_part()).replace("0badcafe", "0BADCAFE"), "cut": dumps(rank_part())[:99]})
    state = {"version": 1, "step": 40, "epoch": 1, "samples_seen": 80, "tokens_seen": 4096,
             "cursor": {"epoch": 1, "samples_taken": 8, "seed": 42, "list": "ab"}, "rng": {"seed": 42},
             "optimizer": {"applied_updates": 40, "groups": [{"name": "policy"}]}, "schedule": {"planned_steps": 40, "plateau_best": None},
             "loss_scale": {"scale": 65536.0, "good_steps": 3}, "ema": {"ema_mean": 0.1, "ema_std": 1e-300},
             "best": {"metric": "val/loss", "value": "NaN", "step": 10}, "early_stop": {"without_best": 2},
             "layout": {"world_size": 2, "strategy": "FULL_SHARD"}, "mlflow": None}
    write_all("trainer_state", {
        "whole": dumps(state), "words": dumps(state | {"step": "Infinity"}), "floats": dumps(state | {"step": 1.7976931348623157e308, "epoch": -0.0}),
        "deepest": dumps(state | {"mlflow": [[[[[[[]]]]]]]}), "deeper": dumps(state | {"mlflow": [[[[[[[[]]]]]]]]}), "lacks": "{}", "list": "[]",
        "extra": dumps(state | {"more": 1}), "2_64": dumps(state | {"step": 1 << 64}), "1e999": dumps(state)[:-1] + ',"x":1e999}',
        "twice": dumps(state)[:-1] + ',"step":1}', "cut": dumps(state)[:-1], "text": dumps(state | {"step": "x"}), "utf8": b'{"step":"\xff"}'})


def section_input(magic, facts, sections, version=1, byte_order=0x01020304, file_bytes=None, crc_offset=None, num=None):
    """What section_input.h makes a file of: header fields, facts, body with room for the checksums."""
    places, body = [], b""
    for data in sections:
        places.append((4096 + len(body), len(data)))
        body += data + bytes(-len(data) % 64)
    crc_at = 4096 + len(body)
    header = magic + struct.pack("<4I2Q", version, byte_order, len(sections) if num is None else num, 0,
                                 crc_at + 4 * bool(body) if file_bytes is None else file_bytes, crc_at if crc_offset is None else crc_offset)
    for place in (places + [(0, 0)] * 12)[:12]:
        header += struct.pack("<2Q", *place)
    return header + facts + body + bytes(4 * bool(body))


def row_index(rows=2, problems=1, problem=(0, 0xFFFFFFFF), name_end=(3,), names=b"abc", **changes):
    facts = struct.pack("<3Qq96xQd2Q10Q4Q", rows, problems, 100, 0, 0, 0.5, 1, 1000, *([0] * 14))
    sections = [struct.pack("<2Q", 0, 50), struct.pack("<2I", 50, 50), struct.pack("<2I", *problem), struct.pack("<2h", 1, -32768), b"\x0c\2",
                struct.pack("<2f", 1, 0), struct.pack("<2I", 3, 0), struct.pack(f"<{len(name_end)}Q", *name_end), names]
    return section_input(b"WMTPIDX1", facts, sections, **changes)


def token_cache(rows=2, tokens=5, width=2, vocab=10, start=(0, 2, 5), prompt=(1, 3), ids=(1, 2, 3, 4, 5), **changes):
    facts = struct.pack("<2Q2IQ96x10Q5Q", rows, tokens, width, 0, vocab, *([0] * 15))
    sections = [struct.pack("<3Q", *start), struct.pack("<2I", *prompt), b"\4\4", struct.pack(f"<5{'H' if width == 2 else 'I'}", *ids)]
    return section_input(b"WMTPTOK1", facts, sections, **changes)


def record(sample, part, numbers, length=None):
    return struct.pack("<QII", sample, part, len(numbers) if length is None else length) + struct.pack(f"<{len(numbers)}f", *numbers) + bytes(4)


def make_caches():
    header = {"version": {"version": 9}, "byte_order": {"byte_order": 0x04030201}, "length": {"file_bytes": 1 << 40}, "crc_before": {"crc_offset": 64},
              "crc_beyond": {"crc_offset": 1 << 62}, "crc_odd": {"crc_offset": 4097}, "sections_13": {"num": 13}, "sections_1": {"num": 1}}
    write_all("row_index", {f"header_{name}": row_index(**change) for name, change in header.items()} | {
        "whole": row_index(), "no_problem": row_index(problems=0, problem=(0xFFFFFFFF,) * 2, name_end=(), names=b""), "problem": row_index(problem=(1, 0)),
        "rows": row_index(rows=1 << 61), "name_end": row_index(name_end=(9,)), "unsorted": row_index(problems=2, name_end=(3, 1)), "cut": row_index()[:300],
        "nothing": b"", "magic": b"WMTPTOK1" + row_index()[8:]})
    write_all("token_cache", {f"header_{name}": token_cache(**change) for name, change in header.items()} | {
        "whole": token_cache(), "wide": token_cache(width=4), "width": token_cache(width=3), "rows": token_cache(rows=1 << 63), "tokens": token_cache(tokens=6),
        "start": token_cache(start=(1, 2, 5)), "unsorted": token_cache(start=(0, 9, 5)), "prompt": token_cache(prompt=(3, 3)), "id": token_cache(vocab=5), "nothing": b""})
    write_all("signal_cache", {
        "two": record(7, 0, [1, 2]) + record(8, 1, [3]), "no_tokens": record(7, 0, []), "same": record(7, 0, [1, 2]) * 2, "other_length": record(7, 0, [1]),
        "unfinished": record(7, 0, [1, 2]) + record(9, 0, [1])[:-1], "cut": record(7, 0, [1, 2])[:9], "length": record(7, 0, [1], 0xFFFFFFFF), "nothing": b""})


# --- MLflow --------------------------------------------------------------------------------------------


def mlflow_run(info=None, **data):
    whole = {"run_id": "8ab1", "experiment_id": "3", "artifact_uri": "mlflow-artifacts:/3/8ab1/artifacts"}
    return dumps({"run": {"info": {**whole, **(info or {})}, "data": data}})


def mlflow_metric(value=0.5, step=1, timestamp=2):
    return mlflow_run(metrics=[{"key": "loss", "value": value, "step": step, "timestamp": timestamp}])


def make_mlflow():
    metric = {"key": "loss", "value": 0.5, "step": "7", "timestamp": "1700000000000"}
    part = {"url": "https://store/x?sign=1", "part_number": "1", "headers": {"x-ms-blob-type": "BlockBlob"}}
    good = {"experiment": dumps({"experiment": {"experiment_id": "0", "artifact_location": "s3://b/0", "lifecycle_stage": "deleted"}}),
            "created": dumps({"experiment_id": "12"}), "found": dumps({"runs": [json.loads(mlflow_run())["run"]]}), "none_found": "{}",
            "run": mlflow_run(params=[{"key": "a", "value": "1"}], tags=[{"key": "t", "value": "\u202e"}], metrics=[metric]),
            "metric": dumps(metric), "parts": dumps({"upload_id": "u", "credentials": [part]}), "version": "3.17.2\n",
            "nan": mlflow_metric("NaN"), "infinity": mlflow_metric("-Infinity"), "wide": '{"key":"a","value":1' + "0" * 300 + "}",
            "error": dumps({"error_code": "RESOURCE_ALREADY_EXISTS", "message": "there"})}
    bad = {"nothing": "", "list": "[]", "page": "<!doctype html><title>Log in</title>", "cut": mlflow_run()[:40], "twice": '{"run":{},"run":{}}',
           "deep": '{"a":' * 17 + "1" + "}" * 17, "nul": '{"a":\0}', "utf8": b'{"a":"\xc0\x80"}', "no_info": '{"run":{}}', "info_list": '{"run":{"info":[]}}',
           "id_257": mlflow_run({"run_id": "a" * 257}), "id_65": dumps({"experiment_id": "1" * 65}), "id_path": mlflow_run({"run_id": "../x"}),
           "id_number": mlflow_run({"run_id": 5}), "id_empty": mlflow_run({"run_id": ""}), "step_text": mlflow_metric(step="1x"),
           "step_wide": mlflow_metric(step=1 << 63), "step_float": mlflow_metric(step=1.5), "value": mlflow_metric("nan"), "value_null": mlflow_metric(None),
           "params": '{"run":{"info":{"run_id":"a","experiment_id":"1","artifact_uri":""},"data":{"params":{}}}}',
           "uri_out": mlflow_run({"artifact_uri": "mlflow-artifacts:/a/%2e%2e/b"}), "uri_cut": mlflow_run({"artifact_uri": "mlflow-artifacts:/%2"}),
           "host": dumps({"credentials": [{**part, "headers": {"hOST": "x"}}]}), "order": dumps({"credentials": [{**part, "part_number": 2}]}),
           "message": dumps({"error_code": "\u001b[31m", "message": 5})}
    bad |= {f"key_{i}": mlflow_run(metrics=[{**metric, "key": name}]) for i, name in enumerate(EVIL_NAMES)}
    write_all("mlflow_json", good | bad)


# --- HTTP ----------------------------------------------------------------------------------------------


def make_http():
    good = {"plain": "http://host", "whole": "https://user:word@Example.org:8443/a%20b/c;d?x=1&y=%2F", "ipv6": "http://[2001:db8::1]:80/",
            "ipv4": "https://127.0.0.1:5000/api/2.0", "query": "http://h?a", "empty_port": "http://h:/", "dots": "http://h/a/../b//c"}
    bad = {"nothing": "", "scheme": "ftp://h/", "no_host": "http:///x", "port_0": "http://h:0/", "port": "http://h:65536/", "bracket": "http://[::1",
           "zone": "http://[fe80::1%25e]/", "escape_cut": "http://h/%4", "escape": "http://h/%zz", "blank": "http://h/a b", "line": "http://h/a\r\nX: y",
           "fragment": "http://h/#a", "digits": "http://2130706433/", "utf8": "http://h/\u00fc", "nul": "http://h/\0", "long": "http://h/" + "x" * 8200,
           "host": "http://" + "h" * 254, "at": "http://a@b@c@d/"}
    write_all("url", good | bad)
    ok = "HTTP/1.1 200 OK\r\n"
    good = {"ok": ok + "ETag: \"x\"\r\nContent-Length: 5\r\n\r\n", "interim": "HTTP/1.1 100 Continue\r\n\r\n" + ok + "\r\n", "lf": "HTTP/1.0 404\nA:b\n\n",
            "range": "HTTP/1.1 206 P\r\nContent-Range: bytes 10-19/100\r\n\r\n", "range_open": ok + "Content-Range: bytes 0-0/*\r\n\r\n",
            "retry": "HTTP/1.1 503 B\r\nRetry-After: 120\r\n\r\n",
            "retry_date": "HTTP/1.1 503 B\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\nDate: Sunday, 06-Nov-94 08:49:00 GMT\r\n\r\n",
            "asctime": ok + "Date: Sun Nov  6 08:49:37 1994\r\n\r\n", "trailer": ok + "\r\nX: y\r\n"}
    bad = {"nothing": "", "ssh": "SSH-2.0-x\r\n", "status_cut": "HTTP/1.1 20", "status": "HTTP/1.1 2xx A\r\n", "http2": "HTTP/2 200\r\n", "colon": ok + "abc\r\n\r\n",
           "folded": ok + "A: b\r\n c\r\n\r\n", "blank_name": ok + "A B: c\r\n\r\n", "nul": ok + "A: \0\r\n\r\n", "cr": ok + "A: b\rC: d\r\n\r\n",
           "large": ok + "A: " + "x" * 66000 + "\r\n\r\n", "many": ok + "A: b\r\n" * 1001, "unfinished": ok + "A: b"}
    write_all("http_head", good | bad)


# --- S3 ------------------------------------------------------------------------------------------------


def make_s3():
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    namespace = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
    one = "<Contents><Key>a+b%2Fc</Key><LastModified>2026-11-16T10:00:00.000Z</LastModified><ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><Size>12</Size></Contents>"
    good = {"objects": f"{head}<ListBucketResult{namespace}><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                       f"<NextContinuationToken>x</NextContinuationToken>{one}<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>",
            "uploads": f"{head}<ListMultipartUploadsResult{namespace}><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>"
                       "<Upload><Key>k</Key><UploadId>u</UploadId><Initiated>2026-11-16T10:00:00Z</Initiated></Upload></ListMultipartUploadsResult>",
            "parts": f"<ListPartsResult{namespace}><IsTruncated>true</IsTruncated><NextPartNumberMarker>1</NextPartNumberMarker>"
                     "<Part><PartNumber>1</PartNumber><ETag>e</ETag><Size>5242880</Size></Part></ListPartsResult>",
            "create": f"{head}<InitiateMultipartUploadResult{namespace}><UploadId>2~x</UploadId></InitiateMultipartUploadResult>",
            "complete": f"\n\n{head}<CompleteMultipartUploadResult{namespace}><ETag>&quot;e-2&quot;</ETag></CompleteMultipartUploadResult>",
            "error": f"{head}<Error><Code>NoSuchKey</Code><Message>a &amp; b &#x1F600;</Message><Region>eu-west-3</Region></Error>",
            "sts": '<R xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><S:a b=\'c\'/><!-- d --></R>', "deep": "<a>" * 16 + "</a>" * 16}
    bad = {"nothing": "", "text": "x", "html": "<!DOCTYPE html><html><br></html>", "dtd": '<!DOCTYPE a [<!ENTITY b "&c;&c;">]><a>&b;</a>',
           "cdata": "<a><![CDATA[<b>]]></a>", "instruction": "<a><?b c?></a>", "entity": "<a>&nbsp;</a>", "entity_cut": "<a>&amp", "numeric_0": "<a>&#0;</a>",
           "numeric_large": "<a>&#x110000;</a>", "surrogate": "<a>&#xD800;</a>", "numeric_none": "<a>&#x;</a>", "deeper": "<a>" * 17 + "</a>" * 17, "open": "<a><b></a>",
           "tag_cut": "<a", "close_cut": "<a></a", "name_cut": "</", "attribute": "<a b>", "quote": "<a b='c>", "two": "<a/><b/>", "nul": "<a>\0</a>", "utf8": b"<a>\xff</a>",
           "comment": "<a><!-- -- --></a>", "size": "<ListBucketResult><Contents><Key>a</Key><Size>18446744073709551616</Size></Contents></ListBucketResult>",
           "key": "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%4</Key><Size>1</Size></Contents></ListBucketResult>",
           "part": "<ListPartsResult><Part><PartNumber>10001</PartNumber><Size>1</Size></Part></ListPartsResult>"}
    write_all("s3_xml", good | bad)


# --- word lists ----------------------------------------------------------------------------------------

JSON_WORDS = ["{", "}", "[", "]", ":", ",", '""', "null", "true", "-1", "1e999", "18446744073709551616",
              "9223372036854775807", "\\u00e9", "\\ud83d\\ude00"]
MANIFEST_WORDS = ['"files":', '"tensors":', '"offsets":', '"shape":', '"dtype":', '"crc32c":', '"path":', '"model":', '"optim":', *JSON_WORDS]
WORDS = {
    "safetensors": ['"dtype":', '"shape":', '"data_offsets":', '"__metadata__":', '"F32"', '"BF16"', '"F4"', '"BOOL"', *JSON_WORDS],
    "quant_state": ['"quant_type":', '"nf4"', '"blocksize":64', '"dtype":', '"bfloat16"', '"shape":', '"nested_blocksize":256', '"nested_dtype":"float32"',
                    '"nested_offset":', *JSON_WORDS],
    "index": ['"weight_map":', '"metadata":', "../", *JSON_WORDS],
    "pickle": ["ctorch._utils\n_rebuild_tensor_v2\n", "ccollections\nOrderedDict\n", "ctorch\nFloatStorage\n", "storage", "\x80\x02", "\x8a\x08",
               "\x95", "\x93", "(", "t", "Q", "R", "u", "}", "h\0", "q\0", "."],
    "torch_zip": ["PK\1\2", "PK\3\4", "PK\5\6", "PK\6\6", "PK\6\7", "\xff\xff\xff\xff", "data.pkl", "data/0", "byteorder"],
    "tokenizer_json": ['"type":', '"Sequence"', '"Split"', '"ByteLevel"', '"Replace"', '"NFC"', '"Strip"', '"Regex":', '"String":', '"pattern":',
                       '"vocab":', '"merges":', '"added_tokens":', '"Metaspace"', '"Digits"', '"Fuse"', '"ByteFallback"', "\\\\x", "\\\\p{L}",
                       "\\\\s", "(?i:", "(?!", *JSON_WORDS],
    "yaml": ["experiment:", "stage:", "training:", "learning_rate:", "dataset:", "models:", "policy:", "${", "}", "${env:", ":-", "$${", "&a ", "*a",
             "- ", "{", "[", "]", "'", '"', "|\n", ">\n", "? ", "!!", "<<", "---\n", "#"],
    "jsonl": ['"instruction":', '"input":', '"output":', '"task_id":', '"is_correct":', '"metadata":', '"difficulty":', '"problem_id":', "\n",
              "\r\n", *JSON_WORDS],
    "url": ["http://", "https://", "[::1]", "@", ":80", ":65535", "%2F", "%", "?", "#", "/../", "xn--", "127.0.0.1", "localhost"],
    "http_head": ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 \r\n\r\n", "\r\n", ": ", "Content-Range: bytes ", "Retry-After: ", "Date: ", "Sun, 06 Nov 1994 08:49:37 GMT",
                  "Sun Nov  6 08:49:37 1994", "0-0/*", "18446744073709551615"],
    "mlflow_json": ['"run":', '"runs":', '"info":', '"data":', '"run_id":', '"experiment_id":', '"artifact_uri":', '"mlflow-artifacts:/', '"metrics":',
                    '"params":', '"tags":', '"key":', '"value":', '"step":', '"timestamp":', '"NaN"', '"-Infinity"', '"credentials":', '"part_number":',
                    '"url":', '"headers":', '"upload_id":', '"error_code":', '"message":', "%2e%2e", *JSON_WORDS],
    "s3_xml": ["<?xml version=\"1.0\"?>", "<!--", "-->", "<!DOCTYPE", "<![CDATA[", "</", "/>", "&lt;", "&amp;", "&#", "&#x", ";", " a='b'", "ListBucketResult", "Contents",
               "Key", "Size", "EncodingType", "url", "IsTruncated", "true", "NextContinuationToken", "ListPartsResult", "Part", "PartNumber", "ListMultipartUploadsResult",
               "Upload", "UploadId", "Error", "Code", "Region", "%2F", "2026-11-16T10:00:00Z"],
    "manifest": MANIFEST_WORDS,
    "rank_part": MANIFEST_WORDS,
    "trainer_state": ['"NaN"', '"Infinity"', '"-Infinity"', '"step":', "[[", "]]", *JSON_WORDS],
}


def quoted(word):
    plain = "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\x{ord(c):02x}" for c in word)
    return f'"{plain}"\n'


def make_dictionaries():
    for target, words in WORDS.items():
        path = HERE / "dict" / f"{target}.dict"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(map(quoted, words)))


if __name__ == "__main__":
    for make in (make_safetensors, make_index, make_quant_state, make_pickles, make_tokenizer_json, make_tokenizer_model, make_yaml, make_jsonl,
                 make_manifests, make_caches, make_mlflow, make_http, make_s3, make_dictionaries):
        make()
