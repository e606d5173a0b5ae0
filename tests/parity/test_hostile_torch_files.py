"""Files of torch.save that lie: every hostile pickle and archive is refused by name, and nothing ever runs."""
import pickle
import struct
import zipfile

import pytest
import torch
from torch_file_checks import check


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def integer(value):
    return b"J" + struct.pack("<i", value) if -2**31 <= value < 2**31 else b"\x8a\x08" + struct.pack("<q", value)


def ints(values):
    return b"(" + b"".join(map(integer, values)) + b"t"


def glob(module, name):
    return f"c{module}\n{name}\n".encode()


def storage(kind="FloatStorage", key="0", count=4):
    return b"(" + text("storage") + glob("torch", kind) + text(key) + text("cpu") + integer(count) + b"tQ"


def tensor(store=None, offset=0, size=(2, 2), stride=(2, 1)):
    return (glob("torch._utils", "_rebuild_tensor_v2") + b"(" + (store or storage()) + integer(offset) + ints(size) +
            ints(stride) + b"\x89" + glob("collections", "OrderedDict") + b")RtR")


def program(body):
    return b"\x80\x02" + body + b"."


def state(value):
    return program(b"}" + text("w") + value + b"s")


def archive(path, pickled, data=b"\0" * 16, entries=(), stem="archive", compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in [("data.pkl", pickled), ("byteorder", b"little"), ("data/0", data), ("version", b"3\n"),
                              *entries]:
            file.writestr(f"{stem}/{name}", content)
    return path


def touch(canary):
    return text(f"touch {canary}") + b"\x85"


def nested_lists(depth):
    return b"]" * depth + b"a" * (depth - 1)


def doubling(levels):
    """Lists of twice the list before; a tuple keeps them all."""
    body = b"(]" + text("x") + b"aq\0"
    for level in range(levels):
        body += b"](" + b"h" + bytes([level]) + b"h" + bytes([level]) + b"eq" + bytes([level + 1])
    return body + b"t"


RUNS = {  # the real pickle runs these: the control shows that the canary works
    "os.system": (lambda c: program(glob("os", "system") + touch(c) + b"R"), "the global os.system"),
    "posix.system": (lambda c: program(glob("posix", "system") + touch(c) + b"R"), "the global posix.system"),
    "stack global": (lambda c: program(text("os") + text("system") + b"\x93" + touch(c) + b"R"), "the global os.system"),
    "eval": (lambda c: program(glob("builtins", "eval") + text(f"open({str(c)!r}, 'w')") + b"\x85R"), "builtins.eval"),
    "inst": (lambda c: program(b"(" + text(f"touch {c}") + b"ios\nsystem\n"), "the opcode INST"),
    "obj": (lambda c: program(b"(" + glob("subprocess", "Popen") + b"]" + text("touch") + b"a" + text(str(c)) + b"ao"),
            "subprocess.Popen"),
    "in a state dict": (lambda c: state(glob("os", "system") + touch(c) + b"R"), "the global os.system"),
    "after tensors": (lambda c: program(b"}" + text("n") + b"Ns" + text("w") + glob("os", "system") + touch(c) + b"Rs"),
                      "os.system"),
    "popped away": (lambda c: program(glob("os", "system") + touch(c) + b"R0N"), "os.system"),
}


@pytest.mark.parametrize("case", RUNS)
def test_nothing_runs(wmtp, tmp_path, case):
    make, fact = RUNS[case]
    canary = tmp_path / "canary"
    made = pickle.loads(make(canary))
    if hasattr(made, "wait"):
        made.wait()
    assert canary.exists(), "the control must run"
    canary.unlink()
    file = archive(tmp_path / "evil.pt", make(canary))
    message = wmtp.error("checkpoint", "inspect", file, code=65)["message"]
    assert fact in message and "not permitted" in message and "byte " in message
    assert not canary.exists()


PICKLES = {
    "torch.jit": (program(glob("torch.jit._serialization", "load") + b")R"), "torch.jit._serialization.load is not permitted"),
    "torch.load": (program(glob("torch.serialization", "load") + b")R"), "torch.serialization.load is not permitted"),
    "old rebuild": (program(glob("torch._utils", "_rebuild_tensor") + b")R"), "_rebuild_tensor is not permitted"),
    "name with a dot": (program(glob("torch", "_utils._rebuild_tensor_v2") + b")R"), "_rebuild_tensor_v2"),
    "numpy": (program(glob("numpy.core.multiarray", "_reconstruct") + b")R"), "numpy.core.multiarray"),
    "getattr": (program(glob("builtins", "getattr") + b")R"), "builtins.getattr is not permitted"),
    "newobj": (program(glob("collections", "OrderedDict") + b")\x81"), "the opcode NEWOBJ is not permitted"),
    "ext1": (program(b"\x82\x01"), "the opcode EXT1 is not permitted"),
    "ext4": (program(b"\x84\x01\0\0\0"), "the opcode EXT4"),
    "newobj_ex": (program(b"N)}\x92"), "the opcode NEWOBJ_EX"),
    "persid text": (program(b"Pfile\n"), "the opcode PERSID"),
    "long4": (program(b"\x8b\x01\0\0\0\x05"), "the opcode LONG4"),
    "int line": (program(b"I5\n"), "the opcode INT"),
    "unicode8": (program(b"\x8d" + struct.pack("<Q", 2**62)), "the opcode BINUNICODE8"),
    "bytearray8": (program(b"\x96" + struct.pack("<Q", 2**62)), "the opcode BYTEARRAY8"),
    "buffer": (program(b"\x97"), "the opcode NEXT_BUFFER"),
    "set": (program(b"\x8f"), "the opcode EMPTY_SET"),
    "dup": (program(b"N2"), "the opcode DUP"),
    "no opcode": (program(b"\xff"), "0xff is no opcode"),
    "protocol 1": (b"\x80\x01N.", "pickle protocol 1"),
    "protocol 6": (b"\x80\x06N.", "pickle protocol 6"),
    "wide integer": (program(b"\x8a\x09" + b"\x01" * 9), "an integer of 9 bytes"),
    "text beyond the end": (program(b"X\xff\xff\xff\xff"), "4294967295 bytes wanted"),
    "not UTF-8": (program(b"X\x02\0\0\0\xff\xfe"), "a text is not UTF-8"),
    "frame beyond the end": (b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b"N.", "a frame of 1099511627776 bytes"),
    "no stop": (b"\x80\x02N", "bytes wanted, 0 are left"),
    "empty": (b"", "bytes wanted"),
    "empty stack": (program(b""), "STOP does not leave exactly one object"),
    "two objects": (program(b"NN"), "STOP does not leave exactly one object"),
    "underflow": (program(b"\x86"), "the stack is empty"),
    "no mark": (program(b"Nt"), "there is no MARK"),
    "open mark": (program(b"N("), "STOP does not leave"),
    "pop below a mark": (program(b"N(\x85"), "the stack is empty"),
    "memo missing": (program(b"h\x07"), "memo entry 7 does not exist"),
    "memo of nothing": (program(b"q\0"), "the stack is empty"),
    "deep": (program(nested_lists(200)), "nested deeper than 100"),
    "very deep": (program(b"]" * 20000 + b"a" * 19999), "more than 10000 objects on the stack"),
    "deep tuples": (program(b")" + b"\x85" * 5000), "nested deeper than 100"),
    "many marks": (program(b"(" * 20000), "too many MARKs"),
    "a million and one objects": (program(b"](" + (b"N" * 1000 + b"e(") * 1001 + b"e"), "more than 1000000 objects"),
    "memo flood": (program(b"](Nq\0" + b"h\0" * 9000 + b"e" + (b"(" + b"h\0" * 9000 + b"e") * 500),
                   "too many references"),
    "append to a dict": (program(b"}Na"), "APPEND on an object it does not fit"),
    "setitem on a list": (program(b"]NNs"), "SETITEM on an object it does not fit"),
    "key without value": (program(b"}(Nu"), "a key without a value"),
    "reduce of a text": (program(text("os") + b")R"), "REDUCE of something that is no known global"),
    "reduce without tuple": (program(glob("collections", "OrderedDict") + b"]R"), "REDUCE of something"),
    "call of a dtype": (program(glob("torch", "float32") + b")R"), "a call of torch.float32"),
    "call of a storage type": (program(glob("torch", "FloatStorage") + b")R"), "a call of torch.FloatStorage"),
    "OrderedDict of a text": (program(glob("collections", "OrderedDict") + text("x") + b"\x85R"), "list of pairs"),
    "parameter of a text": (program(glob("torch._utils", "_rebuild_parameter") + text("x") + b"\x85R"), "with these arguments"),
    "build on a dict": (program(b"}Nb"), "BUILD on something else than an OrderedDict"),
    "build on a tensor": (state(tensor() + b"}b"), "BUILD on something else"),
    "persistent text": (program(text("file:///etc/passwd") + b"Q"), "a persistent id that is no storage"),
    "persistent pair": (program(text("storage") + text("x") + b"\x86Q"), "a persistent id that is no storage"),
    "unknown storage": (state(tensor(storage("QInt8Storage"))), "torch.QInt8Storage is not permitted"),
    "storage that is a dtype": (state(tensor(storage("float32"))), "torch.float32 is no storage type"),
    "storage not there": (state(tensor(storage(key="7"))), "storage 7, which is not there"),
    "storage key with dots": (state(tensor(storage(key="../data.pkl"))), "which is not there"),
    "storage larger than its entry": (state(tensor(storage(count=400))), "claims 400 F32 elements, its entry has 16 bytes"),
    "storage smaller than its entry": (state(tensor(storage(count=2), size=(2,), stride=(1,))), "claims 2 F32 elements"),
    "storage overflow": (state(tensor(storage(count=2**62))), "storage 0 claims 4611686018427387904"),
    "negative count": (state(tensor(storage(count=-4))), "no non-negative integer"),
    "offset beyond": (state(tensor(offset=1)), "reaches beyond its storage of 4 elements"),
    "negative offset": (state(tensor(offset=-1)), "the offset of a tensor is no non-negative integer"),
    "negative stride": (state(tensor(offset=3, size=(4,), stride=(-1,))), "the stride of a tensor"),
    "negative size": (state(tensor(size=(-2,), stride=(1,))), "the size of a tensor"),
    "stride beyond": (state(tensor(size=(2, 2), stride=(3, 1))), "reaches beyond its storage"),
    "product overflow": (state(tensor(size=(2**62, 4), stride=(0, 1))), "reaches beyond its storage"),
    "reach overflow": (state(tensor(size=(3,), stride=(2**62,))), "reaches beyond its storage"),
    "expanded to a terabyte": (state(tensor(size=(2**40,), stride=(0,))), "is larger than its storage"),
    "many expansions": (program(b"](" + tensor(size=(2**22,), stride=(0,)) * 5 + b"e"), "is larger than its storage"),
    "strides missing": (state(tensor(size=(2, 2), stride=(1,))), "another number of strides"),
    "65 dimensions": (state(tensor(size=(1,) * 65, stride=(1,) * 65)), "more than 64 dimensions"),
    "too few arguments": (program(glob("torch._utils", "_rebuild_tensor_v2") + b"(" + storage() + b"tR"), "five more arguments"),
    "tensor of no storage": (program(glob("torch._utils", "_rebuild_tensor_v2") + b"(NNNNNNtR"), "without a storage"),
}


@pytest.mark.parametrize("case", PICKLES)
def test_hostile_pickles(wmtp, tmp_path, case):
    pickled, fact = PICKLES[case]
    message = wmtp.error("checkpoint", "inspect", archive(tmp_path / "evil.pt", pickled), code=65)["message"]
    assert fact in message, message


def test_control_the_hand_made_archive_is_good(wmtp, tmp_path):
    file = archive(tmp_path / "good.pt", state(tensor()), torch.arange(4.0).numpy().tobytes())
    check(wmtp, file, {"w": torch.arange(4.0).view(2, 2)})
    assert torch.equal(torch.load(file)["w"], torch.arange(4.0).view(2, 2))


def test_a_billion_laughs_cost_nothing(wmtp, tmp_path):
    file = archive(tmp_path / "laughs.pt", program(b"}" + text("w") + doubling(60) + b"s"))
    assert "none of its keys is a state dict that wmtp knows: w" in wmtp.error("checkpoint", "inspect", file, code=78)["message"]


def test_a_list_inside_itself_costs_nothing(wmtp, tmp_path):
    file = archive(tmp_path / "cycle.pt", program(b"}" + text("w") + b"]q\0h\0as"))
    assert "none of its keys is a state dict that wmtp knows: w" in wmtp.error("checkpoint", "inspect", file, code=78)["message"]


def good_bytes(tmp_path):
    return archive(tmp_path / "good.pt", state(tensor())).read_bytes()


def patched_entry(data, name, offset, value):
    """Overwrites bytes of the central directory record of one entry."""
    at = data.index(b"PK\x01\x02")
    while data[at + 46:at + 46 + len(name)] != name:
        at = data.index(b"PK\x01\x02", at + 4)
    return data[:at + offset] + value + data[at + offset + len(value):]


def test_hostile_archives(wmtp, tmp_path):
    good = good_bytes(tmp_path)
    zero = b"archive/data/0"
    cases = {
        "flipped bit in a storage": (good.replace(b"\0" * 16, b"\0" * 15 + b"\1", 1), "has CRC-32"),
        "flipped bit in the pickle": (good.replace(b"_rebuild_tensor_v2", b"_rebuild_tensor_v3", 1), "has CRC-32"),
        "encrypted": (patched_entry(good, zero, 8, b"\x01\0"), "archive/data/0 is encrypted"),
        "sizes differ": (patched_entry(good, zero, 20, struct.pack("<I", 8)), "is compressed"),
        "beyond the file": (patched_entry(patched_entry(good, zero, 20, struct.pack("<I", 2**30)), zero, 24,
                                          struct.pack("<I", 2**30)), "does not fit the file"),
        "offset beyond": (patched_entry(good, zero, 42, struct.pack("<I", 2**31)), "outside the data"),
        "offset to nothing": (patched_entry(good, zero, 42, struct.pack("<I", 5)), "has no local header"),
        "offset of another": (patched_entry(good, zero, 42, struct.pack("<I", 0)), "is called otherwise"),
        "truncated": (good[:-30], "no end record"),
        "trailing bytes": (good + b"x", "no end record"),
        "only zeros": (b"\0" * 100, "no end record"),
        "empty file": (b"", "no end record"),
        "directory beyond": (good[:-10] + struct.pack("<I", 2**31) + good[-6:], "its directory"),
        "directory offset beyond": (good[:-6] + struct.pack("<I", 2**31) + good[-2:], "its directory"),
        "claims more entries": (good[:-14] + struct.pack("<HH", 60000, 60000) + good[-10:], "claims 60000 entries"),
        "directory damaged": (good.replace(b"PK\x01\x02", b"PK\x01\x03", 1), "of its directory is damaged"),
    }
    for case, (data, fact) in cases.items():
        (tmp_path / "evil.pt").write_bytes(data)
        error = wmtp.error("checkpoint", "inspect", tmp_path / "evil.pt", "--tensors", code=65)
        assert fact in error["message"], (case, error["message"])


def test_every_truncation_is_refused(wmtp, tmp_path):
    good = good_bytes(tmp_path)
    for size in range(0, len(good), 37):
        (tmp_path / "cut.pt").write_bytes(good[:size])
        assert wmtp.run("checkpoint", "inspect", tmp_path / "cut.pt", "--tensors", check=False).returncode in (65, 78)


def test_archives_with_strange_entries(wmtp, tmp_path):
    pickled = state(tensor())
    deflated = archive(tmp_path / "deflated.pt", pickled, compression=zipfile.ZIP_DEFLATED)
    big = tmp_path / "big.pt"
    with zipfile.ZipFile(big, "w") as file:
        file.writestr("a/data.pkl", pickled), file.writestr("a/byteorder", b"big"), file.writestr("a/data/0", b"\0" * 16)
    stems = tmp_path / "stems.pt"
    with zipfile.ZipFile(stems, "w") as file:
        file.writestr("a/data.pkl", pickled), file.writestr("b/data/0", b"\0" * 16)
    bare = tmp_path / "bare.pt"
    with zipfile.ZipFile(bare, "w") as file:
        file.writestr("data.pkl", pickled)
    nothing = tmp_path / "nothing.pt"
    with zipfile.ZipFile(nothing, "w") as file:
        file.writestr("a/version", b"3\n")
    with pytest.warns(UserWarning):
        twice = archive(tmp_path / "twice.pt", pickled, entries=[("data/0", b"\1" * 16)])
    first = good_bytes(tmp_path)
    at = first.index(b"PK\x03\x04", first.index(b"archive/data/0"))
    # "version" claims to begin inside the payload of an outer entry that swallows it.
    size = struct.pack("<I", at + 60 - first.index(b"\0" * 16))
    overlap = patched_entry(patched_entry(first, b"archive/data/0", 20, size), b"archive/data/0", 24, size)
    (tmp_path / "overlap.pt").write_bytes(overlap)
    for file, fact in ((deflated, "is compressed"), (big, 'byte order is "big"'), (stems, "outside the one folder"),
                       (bare, "outside the one folder"), (nothing, "no data.pkl"), (twice, "occurs twice"),
                       (tmp_path / "overlap.pt", "overlap")):
        assert fact in wmtp.error("checkpoint", "inspect", file, code=65)["message"]
