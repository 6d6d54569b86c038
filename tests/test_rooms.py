"""The pages about the source tree say what is there: the picture of the packages, and the files that are named."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FILES = [path.relative_to(ROOT / "src" / "labelfold") for path in (ROOT / "src" / "labelfold").rglob("*.py*")]
PAGES = [ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md")]


def test_the_picture_is_what_the_imports_say():
    spec = importlib.util.spec_from_file_location("rooms", DOCS / "rooms.py")
    rooms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rooms)
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.svg(), "run python docs/rooms.py"
    graph = rooms.arrows()
    assert graph["rows"] == {"utils"}
    assert "rows" in graph["discriminant"]
    assert rooms.shortest({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}


def is_there(named: str) -> bool:
    """Return whether a file or pattern that a page names, such as "app/io/_csv.py", is in the source tree."""
    where = named.removeprefix("src/").removeprefix("labelfold/")
    return any(path.match(where) for path in FILES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page):
    named = re.findall(r"`((?:[\w/*]+/)?_[\w*]+\.pyi?)`", page.read_text(encoding="utf-8"))
    assert [found for found in dict.fromkeys(named) if found != "_name.py" and not is_there(found)] == []
    assert named or page.name != "architecture.md"
