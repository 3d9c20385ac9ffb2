"""The pages of docs/ as a reader walks them: every link leads somewhere, and every page can be reached."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """(file or folder, anchor) of every link to something of this repository."""
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


def anchors(page: Path) -> set[str]:
    """Those that GitHub gives to headings: lower case, without punctuation, `-` for a space."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [link for link in links(page) if not link[0].exists()] == []
    assert [(name_of(to), anchor) for to, anchor in links(page) if anchor and anchor not in anchors(to)] == []


def test_the_readme_links_every_page() -> None:
    linked = {path for path, _ in links(ROOT / "README.md")}
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page not in linked] == []
