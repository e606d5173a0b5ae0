"""The documentation as text: links lead somewhere, the figures of the README stand in the pages it names, and a Korean page is its
English one in another language: the same blocks of code byte by byte and in order, the same headings, code words and links."""
import os
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KOREAN = {"docs/ko/README.md": "README.md", "docs/ko/guide.md": "docs/guide_four_stages.md",
          "docs/ko/troubleshooting.md": "docs/troubleshooting.md"}
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def code_blocks(text):
    """Fenced blocks with their language, and indented ones, in the order of the page."""
    return re.findall(r"^```.*?^```$|(?:^    [^\n]*\n)+", text, re.M | re.S)


def outside_code(text):
    return re.sub(r"^    .*$", "", FENCE.sub("", text), flags=re.M)


def headings(text):
    return re.findall(r"^(#+) (.+)$", outside_code(text), re.M)


def code_words(text):
    return {" ".join(word.split()) for word in re.findall(r"`([^`]+)`", outside_code(text))}


def anchor(title):
    """As GitHub makes it of a heading."""
    plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower())
    return plain.replace(" ", "-")


def links(path):
    """(file from the root, anchor or '') of each relative link."""
    for target in LINK.findall(outside_code((ROOT / path).read_text())):
        if not re.match(r"[a-z]+:", target):
            file, _, place = target.partition("#")
            yield (os.path.normpath(Path(path).parent / file) if file else path), place


def differences(korean, english):
    if code_blocks(korean) != code_blocks(english):
        pairs = zip([*code_blocks(korean), ""], [*code_blocks(english), ""])
        yield next(f"block {i} differs:\n{ours}\n{theirs}" for i, (ours, theirs) in enumerate(pairs) if ours != theirs)
    if [mark for mark, _ in headings(korean)] != [mark for mark, _ in headings(english)]:
        yield f"headings differ: {headings(korean)}"
    if odd := code_words(korean) ^ code_words(english):
        yield f"code words of one page alone: {sorted(odd)}"
    # The form of Markdown: ** behind a sign of punctuation and before a letter does not end bold type.
    yield from (f"bold type does not end: {text}" for text in re.findall(r".{10}[).,\"'`]\*\*[가-힣].*", outside_code(korean)))


class Korean(unittest.TestCase):
    def test_pages_are_the_same_but_for_their_language(self):
        for korean, english in KOREAN.items():
            with self.subTest(korean):
                texts = [(ROOT / path).read_text() for path in (korean, english)]
                self.assertEqual(list(differences(*texts)), [])
                self.assertGreater(len(re.findall("[가-힣]", texts[0])), 1000)

    def test_pages_of_both_languages_link_to_each_other_and_to_the_same_pages(self):
        alike = {**KOREAN, **{english: english for english in KOREAN.values()}}
        for korean, english in KOREAN.items():
            with self.subTest(korean):
                ours, theirs = ({file for file, _ in links(path)} for path in (korean, english))
                self.assertIn(english, ours)
                self.assertIn(korean, theirs)
                self.assertEqual({alike.get(file, file) for file in theirs} - {english}, {alike.get(file, file) for file in ours} - {english})

    def test_every_page_is_paired(self):
        self.assertEqual({f"docs/ko/{path.name}" for path in (ROOT / "docs/ko").glob("*.md")}, set(KOREAN))

    def test_a_changed_block_a_lost_heading_and_a_lost_word_are_found(self):
        page = "# A\n\n`key`\n\n```sh\nwmtp train\n```\n\n    indented\n"
        for changed in (page.replace("wmtp train", "wmtp  train"), page.replace("indented", "Indented"), page.replace("# A", "## A"),
                        page.replace("`key`", "`kye`"), page + "아주 긴 문장의 **굵은 글씨(bold)**는\n"):
            self.assertEqual(len(list(differences(changed, page))), 1, changed)
        self.assertEqual(list(differences(page, page)), [])


class Links(unittest.TestCase):
    def test_every_relative_link_leads_somewhere(self):
        pages = ["README.md", "CONTRIBUTING.md", "src/wmtp/README.md"]
        pages += [str(path.relative_to(ROOT)) for folder in ("docs", "benchmarks") for path in (ROOT / folder).rglob("*.md")]
        lost, seen = [], 0
        for page in pages:
            for file, place in links(page):
                seen += 1
                if not (ROOT / file).exists():
                    lost.append(f"{page}: there is no {file}")
                elif place and place not in {anchor(title) for _, title in headings((ROOT / file).read_text())}:
                    lost.append(f"{page}: {file} has no heading #{place}")
        self.assertEqual(lost, [])
        self.assertGreater(seen, 200)


class Figures(unittest.TestCase):
    def test_every_figure_of_the_comparison_stands_in_the_page_that_its_row_names(self):
        text = (ROOT / "README.md").read_text()
        section = text.partition("\n## How it compares\n")[2].partition("\n## ")[0]
        rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ") and "benchmarks/" in line]
        self.assertGreaterEqual(len(rows), 8)
        for what, ours, theirs, page in rows:
            [file] = re.findall(r"\((benchmarks/\S+)\)", page)
            known = (ROOT / file).read_text()
            for figure in re.findall(r"\d[\d,.]*\d", f"{ours} {theirs}"):
                self.assertRegex(known, rf"(?<![\d.,]){re.escape(figure)}(?![\d]|[.,]\d)", f"{what}: {figure} is not in {file}")


if __name__ == "__main__":
    unittest.main()
