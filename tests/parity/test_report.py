"""`wmtp report`: the page read back by Python's own parsers."""
import html.parser
import json
import math
import re
import xml.etree.ElementTree as tree

import pytest

STAGES = ["baseline", "critic", "verifiable", "rho1"]
HOSTILE = "<script>alert('x')</script> & \"quoted\""


def write_run(folder, stage, steps=60, nan_at=None):
    folder.mkdir(parents=True)
    with open(folder / "metrics.jsonl", "w") as file:
        for step in range(1, steps + 1):
            if step == 31:
                file.write('{"event":"resume","step":25}\n')
            point = {"step": step, "time": 1e9 + step, "train/loss": 4 / step + 1,
                     "train/learning_rate": 1e-4 * min(1, step / 10), "train/grad_norm": 1 / step,
                     "perf/tokens_per_sec": 1000.0 + step}
            point |= {f"train/head{k}_loss": 4 / step + k for k in range(4)}
            if step == nan_at:
                point["train/loss"] = "NaN"
            if step % 20 == 0:
                point["val/loss"] = 5 / step
            file.write(json.dumps(point) + "\n")
    tokens = [{"t": "Question: " + HOSTILE, "m": 0, "w": 0.0, "v": None, "sel": None}]
    tokens += [{"t": f" word{i}\n", "m": 1, "w": i / 10, "v": math.sin(i) if stage != "rho1" else None,
                "sel": [1, i % 2] if stage == "rho1" else None} for i in range(20)]
    with open(folder / "samples.jsonl", "w") as file:
        for step in (0, steps):
            file.write(json.dumps({"step": step, "stage": stage, "tokens": tokens}) + "\n")
    (folder / "histograms.jsonl").write_text(json.dumps(
        {"step": steps, "name": "weight", "edges": [0, 1, 2, 3], "counts": [5, 0, 7]}) + "\n")
    (folder / "config.yaml").write_text(f"experiment:\n  name: demo\n  stage: {stage}\n  description: '{HOSTILE[:8]}'\n")
    (folder / "environment.json").write_text(json.dumps({"device": "cpu", "wmtp": "0.1"}))
    return folder


class Page(html.parser.HTMLParser):
    """Tags in order, text, and every attribute; complains of tags that do not nest."""

    VOID = {"meta"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


def drawing_named(text, name):
    return next(d for d in tree.fromstring(text).iter("svg") if d.get("aria-label") == name)


@pytest.fixture(scope="module")
def page(wmtp, tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    runs = [write_run(root / f"demo-{stage}", stage, nan_at=7) for stage in STAGES]
    done = wmtp.run("report", *runs, "--out", root / "all.html")
    assert done.stdout.strip() == str(root / "all.html") and done.stderr == ""
    text = (root / "all.html").read_text()
    return Page(text), text


def test_page_is_well_formed_as_html_and_as_xml(page):
    root = tree.fromstring(page[1])
    assert root.tag == "html"


def test_all_runs_lie_over_each_other(page):
    for stage in STAGES:
        assert page[0].text.count(f"demo-{stage}") >= 8
    for heading in ["Loss", "Loss per head", "Learning rate", "Gradient norm", "Tokens per second", "Histograms"]:
        assert re.search(f"<h2[^>]*>{heading}</h2>", page[1])


def test_texts_of_samples_and_config_are_escaped(page):
    parsed, text = page
    assert "script" not in parsed.tags and "<script" not in text
    assert HOSTILE in parsed.text
    assert not [a for a in parsed.attributes if a[1].startswith("on") and a[1] != "open"]


def test_page_is_self_contained(page):
    assert not [a for a in page[0].attributes if a[1] in ("src", "href", "xlink:href") and not a[2].startswith("#") and a[2] != "data:,"]
    assert "url(" not in page[1] and "@import" not in page[1] and "http:" not in page[1] and "https:" not in page[1]
    policy = next(a[2] for a in page[0].attributes if a[1] == "content" and "src" in a[2])
    assert policy.startswith("default-src 'none';") and "script" not in policy
    assert len(page[1]) < 400_000


def test_numbers_of_drawings_are_finite_and_inside(page):
    seen = 0
    for drawing in tree.fromstring(page[1]).iter("svg"):
        _, _, width, height = map(float, drawing.get("viewBox").split())
        for item in drawing.iter():
            for key in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height", "r"):
                if item.get(key) is not None:
                    assert math.isfinite(float(item.get(key)))
                    seen += 1
            for x, y in (map(float, pair.split(",")) for pair in item.get("points", "").split()):
                assert 0 <= x <= width and 0 <= y <= height
                seen += 1
    assert seen > 1000


def test_loss_curve_follows_the_numbers(page):
    """The drawn curve is the data under one linear map, and the NaN is a gap."""
    drawing = drawing_named(page[1], "loss")
    lines = [line.get("points") for group in drawing.iter("g") if group.get("class") == "raw"
             for line in group.iter("polyline") if line.get("class") == "k0"]
    assert len(lines) == 2
    points = [tuple(map(float, pair.split(","))) for line in lines for pair in line.split()]
    steps = [s for s in range(1, 61) if s != 7]
    assert len(points) == len(steps)
    (x0, y0), (x1, y1) = points[0], points[-1]
    for step, (x, y) in zip(steps, points):
        assert abs(x - (x0 + (x1 - x0) * (step - 1) / 59)) < 0.2
        assert abs(y - (y0 + (y1 - y0) * (4 - 4 / step) / (4 - 4 / 60))) < 0.2


def test_loss_curves_over_time_and_on_a_logarithmic_axis(page):
    """A step takes a second, and the one between the last line before the restart and the first after it is a pause."""
    assert 'for="x1"' not in page[1] and 'for="x2"' in page[1], "tokens are not recorded, times are"
    linear, time, log = (
        [tuple(map(float, pair.split(","))) for pair in next(
            line.get("points") for line in drawing_named(page[1], name).iter("polyline") if line.get("class") == "k1").split()]
        for name in ("loss", "loss over time", "loss over steps, logarithmic"))
    assert len(linear) == len(time) == len(log) == 6, "up to the NaN"
    low, high = math.log(5 / 60), math.log(5)  # the least loss is a validation's
    for i, step in enumerate(range(1, 7)):
        assert time[i] == (pytest.approx(58 + 290 * (step - 1) / 58, abs=0.06), linear[i][1])
        assert log[i] == (linear[i][0], pytest.approx(10 + 168 * (high - math.log(4 / step + 1)) / (high - low), abs=0.06))


def test_selected_tokens_are_marked_per_head(page):
    root = tree.fromstring(page[1])
    figures = [f for f in root.iter("figure") if (f.findtext("figcaption") or "").startswith("Head 2:")]
    assert len(figures) == 2  # the first and the last sample of rho1
    assert figures[0].findtext("figcaption") == "Head 2: 10 of 19 targets selected"  # it looks two tokens back
    marked = "".join("".join(mark.itertext()) for mark in figures[0].iter("mark"))
    assert re.findall(r"word(\d+)", marked) == [str(i) for i in range(1, 20, 2)]
    assert re.search(r'--w:1\.00" title="token 20: weight 1.9"', page[1])


def test_restarts_config_and_environment_are_shown(page):
    assert page[0].text.count("continued from step 25") == 4
    assert "stage: verifiable" in page[0].text and "device" in page[0].text


def test_json_and_text_forms(wmtp, tmp_path):
    run = write_run(tmp_path / "a", "rho1")
    data = json.loads(wmtp.run("report", run, "--format", "json").stdout)["runs"][0]
    assert data["series"]["train/loss"][0] == [1, 5.0] and data["restarts"] == [25]
    assert data["best"] == {"metric": "val/loss", "value": 5 / 60, "step": 60}
    assert wmtp.json("report", run, "--format", "json")["runs"][0]["name"] == "a"
    text = wmtp.run("report", run, "--format", "text").stdout
    assert "train/head3_loss" in text and "\x1b" not in text
    assert wmtp.json("report", run)["out"] == str(run / "report.html")


def test_compare_overlays_and_lists_differences(wmtp, tmp_path):
    a, b = write_run(tmp_path / "a", "rho1"), write_run(tmp_path / "b", "baseline")
    wmtp.run("report", a, "--compare", b, "--out", tmp_path / "c.html")
    text = (tmp_path / "c.html").read_text()
    tree.fromstring(text)
    assert ">b, validation <b>" in text and "<td>experiment.stage</td><td>rho1</td><td>baseline</td>" in text


def test_runs_of_one_name_are_told_apart(wmtp, tmp_path):
    a, b = write_run(tmp_path / "x/run", "rho1"), write_run(tmp_path / "y/run", "rho1")
    data = json.loads(wmtp.run("report", a, b, "--format", "json").stdout)
    assert [run["name"] for run in data["runs"]] == [str(a), str(b)]


def test_bad_folders_are_named(wmtp, tmp_path):
    assert "nowhere" in wmtp.error("report", tmp_path / "nowhere", code=78)["message"]
    (tmp_path / "empty").mkdir()
    assert "metrics.jsonl" in wmtp.error("report", tmp_path / "empty", code=65)["message"]
    (tmp_path / "empty/metrics.jsonl").write_text("")
    assert "no step" in wmtp.error("report", tmp_path / "empty", code=65)["message"]
    damaged = write_run(tmp_path / "damaged", "rho1")
    lines = (damaged / "metrics.jsonl").read_text().splitlines()
    lines[11] = lines[11].replace("}", "]}")
    (damaged / "metrics.jsonl").write_text("\n".join(lines))
    assert "metrics.jsonl:12" in wmtp.error("report", damaged, code=65)["message"]
    assert not (damaged / "report.html").exists()
