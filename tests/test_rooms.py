"""The picture of the packages in docs/ is what the imports say."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_picture_is_what_the_imports_say():
    spec = importlib.util.spec_from_file_location("rooms", DOCS / "rooms.py")
    rooms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rooms)
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.svg(), "run python docs/rooms.py"
    graph = rooms.arrows()
    assert graph["rows"] == {"utils"}
    assert "rows" in graph["discriminant"]
    assert rooms.shortest({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}
