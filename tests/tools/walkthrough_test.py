"""docs/walkthrough.md names what is in the sources: every path, Class::method, function() and field_ in backticks exists,
every excerpt stands in the file it names, and the counts at its end are those of the page. src/wmtp/README.md names every
module, what it depends on, and headers that exist."""
import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/walkthrough.md"
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
FENCE = re.compile(r"^```(\S*) ?(\S*)\n(.*?)^```$", re.M | re.S)
PATH = re.compile(r"^[\w./-]+\.(h|cpp|cu|cuh|py|md)$")
MEMBER = re.compile(r"^(?:\w+::)*(\w+)::(\w+)(?:\(\))?$")
CALL = re.compile(r"^(\w+)\(\)$")
FIELD = re.compile(r"^(?:[a-z]\w*_|k[A-Z]\w*)$")
TYPE = re.compile(r"^[A-Z][a-z]\w*$")


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


class Sources:
    def __init__(self, root):
        self.root = root
        files = [file for file in (root / "src/wmtp").rglob("*") if file.suffix in SUFFIXES]
        self.names = {file.name for file in files}
        self.texts = [without_comments(file.read_text()) for file in files]
        self.words = [set(re.findall(r"\w+", text)) for text in self.texts]

    def file(self, name):
        """The file that a path on the page means: below src/wmtp, or below the repository."""
        for base in (self.root / "src/wmtp", self.root):
            if (base / name).is_file():
                return base / name
        return None

    def texts_with(self, *words):
        return (text for text, known in zip(self.texts, self.words) if known.issuperset(words))

    def has_call(self, name):
        return any(re.search(rf"\b{name}\(", text) for text in self.texts_with(name))

    def body(self, owner):
        """What stands between the braces of every class or struct of that name."""
        for text in self.texts_with(owner):
            for begin in re.finditer(rf"\b(?:class|struct) (?:\w+::)*{owner}\b[^;{{()]*\{{", text):
                depth, end = 1, begin.end()
                while depth and end < len(text):
                    depth += {"{": 1, "}": -1}.get(text[end], 0)
                    end += 1
                yield text[begin.end():end]

    def has_member(self, owner, name):
        if any(re.search(rf"\b{name}\b", body) for body in self.body(owner)):
            return True
        space = rf"\bnamespace (?:\w+::)*{owner}(?:::\w+)* \{{"
        return any(re.search(space, text) for text in self.texts_with(owner, name))


def missing_name(name, sources):
    """Why a word in backticks is not in the sources; None if it is, or if it does not look like code."""
    if PATH.match(name):
        found = sources.file(name) or ("/" not in name and name in sources.names)
        return None if found else "there is no such file"
    if member := MEMBER.match(name):
        return None if sources.has_member(*member.groups()) else f"{member[1]} has no {member[2]}"
    if call := CALL.match(name):
        return None if sources.has_call(call[1]) else "there is no such function"
    if FIELD.match(name) or TYPE.match(name):
        return None if any(sources.texts_with(name)) else "there is no such name"
    return None


def lines_of(text):
    return [line.strip() for line in text.strip("\n").splitlines()]


def holds(text, excerpt):
    lines, wanted = lines_of(text), lines_of(excerpt)
    return any(lines[at:at + len(wanted)] == wanted for at in range(len(lines)))


def faults(page, sources):
    for language, name, excerpt in FENCE.findall(page):
        if language != "cpp":
            continue
        file = sources.file(name) if name else None
        if not file:
            yield f"an excerpt names no file: {name}"
        elif not holds(file.read_text(), excerpt):
            yield f"{name} does not hold the excerpt {lines_of(excerpt)[0]}"
    for name in re.findall(r"`([^`\n]+)`", FENCE.sub("", page)):
        if why := missing_name(name, sources):
            yield f"{name}: {why}"


def read_files(page, sources):
    """The source files a part of the page names, and those its excerpts come from."""
    names = re.findall(r"`([^`\n]+)`", FENCE.sub("", page)) + [name for _, name, _ in FENCE.findall(page)]
    found = {sources.file(name) for name in names if PATH.match(name)}
    return {file for file in found if file and file.suffix in SUFFIXES}


class Walkthrough(unittest.TestCase):
    sources = Sources(ROOT)
    page = PAGE.read_text()

    def test_every_name_exists(self):
        self.assertEqual(list(faults(self.page, self.sources)), [])

    def test_enough_is_checked(self):
        names = set(re.findall(r"`([^`\n]+)`", FENCE.sub("", self.page)))
        for pattern, least in ((PATH, 70), (MEMBER, 40), (CALL, 20)):
            self.assertGreater(sum(bool(pattern.match(name)) for name in names), least)

    def test_counts_at_its_end(self):
        step = self.page.split("# One training step")[1].split("\n# One save")[0]
        save = self.page.split("\n# One save")[1].split("\n# What the walk costs")[0]
        of_step, of_save = read_files(step, self.sources), read_files(save, self.sources)
        ups = {int(number) for number in re.findall(r"\*\*Up (\d+)\*\*", step + save)}
        self.assertEqual(ups, set(range(1, len(ups) + 1)))
        told = re.search(r"reads (\d+) files: (\d+) for the step, and (\d+) more for the save\. It calls up (\d+) times",
                         " ".join(self.page.split()))
        self.assertIsNotNone(told)
        counted = len(of_step | of_save), len(of_step), len(of_save - of_step), len(ups)
        self.assertEqual(tuple(map(int, told.groups())), counted)

    def test_lines_are_wrapped(self):
        long = [line for line in self.page.splitlines() if len(line) > 120 and not line.startswith("|")]
        self.assertEqual(long, [])


class Modules(unittest.TestCase):
    text = (ROOT / "src/wmtp/README.md").read_text()

    def depends(self):
        """{module: what its wmtp_module line names}"""
        found = {}
        for lines in (ROOT / "src/wmtp").glob("*/CMakeLists.txt"):
            for name, rest in re.findall(r"^wmtp_module\((\w+)([^)]*)\)", lines.read_text(), re.M):
                words = re.search(r"DEPENDS ([\w ]+?)(?: LIBS|$)", rest)
                found[name] = words[1].split() if words else []
        return found

    def test_the_list_is_that_of_the_build(self):
        told = {name: rest.split() for name, rest in re.findall(r"^(\w+):((?: +[\w ]+)?)$", self.text, re.M)}
        self.assertEqual(told, self.depends())

    def test_the_picture_goes_down_only(self):
        rows = re.findall(r"^(\d) +([\w |]+)$", self.text, re.M)
        row = {name: int(number) for number, names in rows for name in names.replace("|", " ").split()}
        self.assertEqual(set(row), set(self.depends()))
        for name, below in self.depends().items():
            for other in below:
                self.assertGreater(row[name], row[other], f"{name} and {other}")

    def test_each_has_a_paragraph_and_a_header(self):
        paragraphs = dict(re.findall(r"^\*\*(\w+)\*\* (.*?)(?:\n\n|\Z)", self.text, re.M | re.S))
        self.assertEqual(set(paragraphs) - {"cuda_plugin"}, set(self.depends()))
        for name, paragraph in paragraphs.items():
            headers = re.findall(r"`([\w/]+\.h)`", paragraph)
            self.assertTrue(headers, name)
            for header in headers:
                places = (ROOT / "src/wmtp" / name / header, ROOT / "src/wmtp" / header)
                self.assertTrue(any(place.is_file() for place in places), f"{name}: {header}")


class RenamedNames(unittest.TestCase):
    """The check itself: it accepts what a small tree has and names what it has not."""

    def fault(self, page):
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root) / "src/wmtp/run"
            folder.mkdir(parents=True)
            (folder / "saves.h").write_text("class Saves {\n  bool is_due();  // once was_due\n  int last_step_ = 0;\n};\n"
                                            "class Checkpointer { void work(); };\n")
            (folder / "saves.cpp").write_text("bool Saves::is_due() {\n  return last_step_ > 0;\n}\n")
            return list(faults(page, Sources(Path(root))))

    def test_sound(self):
        page = ("`run/saves.h`, `saves.cpp`, `Saves::is_due`, `is_due()`, `last_step_`, `baseline` and `wmtp train`\n"
                "```cpp src/wmtp/run/saves.cpp\n  return last_step_ > 0;\n```\n")
        self.assertEqual(self.fault(page), [])

    def test_each_kind_of_breach(self):
        for name in ("run/trainer.h", "trainer.h", "Saves::is_overdue", "Saver::is_due", "Saves::work", "was_due()",
                     "last_saved_step_", "kLimit", "PendingSteps", "Trainer"):
            found = self.fault(f"`{name}`")
            self.assertEqual(len(found), 1, name)
            self.assertIn(name, found[0])

    def test_excerpts(self):
        self.assertIn("does not hold", self.fault("```cpp src/wmtp/run/saves.cpp\n  return true;\n```\n")[0])
        self.assertIn("names no file", self.fault("```cpp\n  return last_step_ > 0;\n```\n")[0])


if __name__ == "__main__":
    unittest.main()
