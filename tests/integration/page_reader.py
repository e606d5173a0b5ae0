"""A page of the program as a program reads it: its tokens by row, its tables, its elements and attributes."""
import re
from html.parser import HTMLParser


class Token:
    def __init__(self, attributes):
        self.classes = set(attributes.get("class", "").split())
        self.title, self.text = attributes.get("title", ""), ""
        self.shades = {name: float(number) for name, number in re.findall(r"--([\w-]+):([\d.]+)", attributes.get("style", ""))}

    @property
    def id(self):
        return int(re.search(r"\bid (\d+)", self.title)[1])

    def number(self, label):
        return float(re.search(rf"{label} (-?[\d.e+-]+)", self.title)[1])


class Page(HTMLParser):
    """Our pages close every element, or end it at once (<meta/>): one that stays open came out of foreign text."""

    def __init__(self, path):
        super().__init__()
        self.html = path.read_text()
        self.rows, self.titles, self.tables, self.tags, self.attributes = [], [], [], set(), set()
        self._open, self._cell, self._title = [], None, None
        self.feed(self.html)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.add(tag)
        self.attributes.update(given)
        self._open.append((tag, given.get("class", "")))
        if tag == "pre" and "tokens" in given.get("class", ""):
            self.rows.append([])
        elif tag == "span" and self._in("pre"):
            self.rows[-1].append(Token(given))
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "h3" and self._in("div", "sample"):
            self.titles.append("")

    def _in(self, tag, of_class=""):
        return any(name == tag and of_class in classes for name, classes in self._open)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes.update(dict(attributes))

    def handle_endtag(self, tag):
        assert self._open and self._open[-1][0] == tag, f"</{tag}> in {self._open}"
        self._open.pop()

    def handle_data(self, data):
        if not self._open:
            return
        tag = self._open[-1][0]
        if tag == "span" and self._in("pre"):
            self.rows[-1][-1].text += data
        elif tag in ("td", "th"):
            self.tables[-1][-1][-1] += data
        elif tag == "h3" and self._in("div", "sample"):
            self.titles[-1] += data

    def tokens(self, row):
        """Those of the row itself, without its padding."""
        return [token for token in self.rows[row] if "pad" not in token.classes]

    def assert_is_inert(self):
        """No script, nothing to fetch, and a policy that would stop both."""
        assert "default-src &#39;none&#39;" in self.html
        assert not self.tags & {"script", "img", "link", "iframe", "object", "form", "a"}, self.tags
        assert not [name for name in self.attributes if name.startswith("on") or name in ("src", "href")], self.attributes
        assert "://" not in self.html and "@import" not in self.html and "url(" not in self.html
