"""What the GPU plugin is built for: in its library, in what `wmtp version` and `wmtp doctor` say, and on machines that are too
old, which a libnvidia-ml.so of ours plays (tests/support/nvml)."""
import struct

import pytest

FATBIN = struct.pack("<I", 0xBA55ED50)
PTX, MACHINE_CODE = 1, 2


def fat_binaries(library):
    """The code of each fat binary in the library: {(kind, architecture)}. A header of 16 bytes (magic, version, its size, size
    of what follows), then entries: kind, version, size of the header, size of the code; the architecture at byte 28."""
    data, found = library.read_bytes(), []
    start = data.find(FATBIN)
    while start >= 0:
        header, size = struct.unpack_from("<HQ", data, start + 6)
        at, end, entries = start + header, start + header + size, set()
        while at < end:
            kind, _, entry_header, code = struct.unpack_from("<HHIQ", data, at)
            entries.add((kind, struct.unpack_from("<I", data, at + 28)[0]))
            at += entry_header + code
        assert at == end, f"a fat binary at {start} that ends elsewhere than it says"
        found.append(entries)
        start = data.find(FATBIN, end)
    return found


def test_every_kernel_has_machine_code_and_ptx(wmtp):
    library = wmtp.binary.parent.parent / "lib/libwmtp_cuda.so"
    if not library.exists():
        pytest.skip("this build has no GPU plugin")
    said = wmtp.json("version")["gpu_support"]
    expected = {(MACHINE_CODE, int(name.removeprefix("sm_"))) for name in said["machine_code"]}
    expected.add((PTX, int(said["ptx"].removeprefix("compute_"))))
    found = fat_binaries(library)
    assert found and all(entries == expected for entries in found), found


def test_version_says_what_is_supported(wmtp):
    said = wmtp.json("version")["gpu_support"]
    assert said == {"min_compute_capability": "8.0", "machine_code": ["sm_80", "sm_90"], "ptx": "compute_90", "cuda": "13.0",
                    "min_driver": 580}
    text = wmtp.run("version").stdout
    assert ("compute capability 8.0 and above (machine code sm_80, sm_90; PTX compute_90 for newer), CUDA 13.0, driver 580 or "
            "newer") in text


@pytest.mark.parametrize("kind, driver, capability, status, pieces, fix", [
    ("new", "580.65.06", 90, "OK", ["machine code of this generation", "driver 580.65.06"], ""),
    ("old", "595.10", 120, "OK", ["newer than the plugin"], ""),
    ("new", "580.65.06", 75, "FAIL", ["has compute capability 7.5; the GPU plugin needs 8.0 or above"], "CUDA_VISIBLE_DEVICES"),
    ("new", "570.124.06", 90, "FAIL", ["driver 570.124.06 is older than 580, which CUDA 13.0 needs"], "driver 580 or newer"),
    ("bare", "570.124.06", 90, "FAIL", ["driver 570.124.06"], "driver 580 or newer"),
])
def test_doctor_of_gpus_and_drivers(wmtp, tmp_path, kind, driver, capability, status, pieces, fix):
    fake = wmtp.binary.parent.parent / f"lib/fake_nvml/libfake_nvml_{kind}.so"
    if not fake.exists():
        pytest.fail(f"no {fake}: build the tests")
    (tmp_path / "libnvidia-ml.so.1").symlink_to(fake)
    env = {"LD_LIBRARY_PATH": str(tmp_path), "FAKE_NVML_DRIVER": driver, "FAKE_NVML_CAPABILITY": str(capability)}

    def support(*flags):
        done = [line for line in wmtp.json_lines("doctor", "--storage", tmp_path, *flags, env=env, check=False)
                if line["type"] == "result"]
        return next(check for check in done[0]["checks"] if check["name"] == "GPU support")
    found = support()
    said = " ".join([found["fact"], *found["details"]])
    assert found["status"] == status and all(piece in said for piece in pieces) and fix in found["fix"], found
    assert "\x1b" not in said
    if status == "FAIL":
        assert support("--device", "cpu")["status"] == "WARN"
        assert wmtp.run("doctor", "--storage", tmp_path, env=env, check=False).returncode == 78
