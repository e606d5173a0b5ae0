"""What `wmtp doctor --cluster` printed for people: the tables of collectives."""
import re

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20}


def bandwidths(text):
    """Collective -> {bytes: GB/s}, of checks that ended with OK."""
    found, rows = {}, None
    for line in text.splitlines():
        if check := re.match(r"(OK|WARN|FAIL) +(all_reduce|all_gather)? ", line):
            rows = found.setdefault(check[2], {}) if check[1] == "OK" and check[2] else None
        elif rows is not None and (row := re.fullmatch(r" +(\d+) (B|KiB|MiB) +[\d.]+ ms +([\d.]+) GB/s", line)):
            rows[int(row[1]) * UNITS[row[2]]] = float(row[3])
    return found


def assert_bandwidths_are_told(text):
    found = bandwidths(text)
    assert sorted(found) == ["all_gather", "all_reduce"], text
    for rows in found.values():
        assert list(rows) == [8, 2**10, 2**16, 2**20, 2**24, 2**26], text
        assert rows[2**26] > 0, text
    print(f"\n64 MiB: all_reduce {found['all_reduce'][2**26]} GB/s, all_gather {found['all_gather'][2**26]} GB/s")
