"""Write docs/images/rooms.svg: the packages of the source tree, and which imports which, from the imports themselves.

    python docs/rooms.py

An arrow from A to B says that A imports from B. An arrow that follows from others is left out: if A imports from B
and B from C, the picture does not show that A also imports from C. tests/test_rooms.py fails if the picture is not
what the imports say.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from html import escape
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "labelfold"
PICTURE = Path(__file__).parent / "images" / "rooms.svg"
PALE = {"app": "#fdf0e2", "methods": "#e5f0fb", "library": "#eef2ea"}
METHODS = {"discriminant", "factorization", "subspace", "semi_supervised"}
BOX, GAP, STEP = (132, 34), 22, 80


def room(path: Path) -> str:
    """Return the package a file belongs to, such as "rows" or "app/io"; "" for the files at the top level."""
    parts = path.relative_to(SOURCE).parts[:-1]
    return "/".join(parts[:2] if parts[:1] == ("app",) else parts[:1])


def public() -> dict[str, str]:
    """Return the package of each name that `from labelfold import name` finds."""
    stubs = [path for path in SOURCE.rglob("__init__.pyi") if path.parent != SOURCE]
    return {
        alias.asname
        or alias.name: f"labelfold.{path.parent.relative_to(SOURCE).as_posix().replace('/', '.')}"
        for path in stubs
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def imported(node: ast.AST, homes: dict[str, str]) -> Iterator[str]:
    """Yield the modules of labelfold that a tree imports, anywhere in it but for type checkers."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.ImportFrom) and node.module == "labelfold":
        yield from (homes[alias.name] for alias in node.names if alias.name in homes)
    elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "labelfold" and node.attr in homes:
        yield homes[node.attr]
    elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("labelfold."):
        yield node.module or ""
    for child in ast.iter_child_nodes(node):
        yield from imported(child, homes)


def arrows() -> dict[str, set[str]]:
    """Return the rooms that each room imports from."""
    found: dict[str, set[str]] = {room(path): set() for path in SOURCE.rglob("*.py")}
    found = {here: set() for here in found if here not in ("", "app")}
    homes = public()
    for path in SOURCE.rglob("*.py"):
        if room(path) not in found:
            continue
        for module in imported(ast.parse(path.read_text(encoding="utf-8")), homes):
            parts = module.split(".")[1:]
            there = "/".join(parts[:2] if parts[0] == "app" else parts[:1])
            if there in found and there != room(path):
                found[room(path)].add(there)
    return found


def reach(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return all rooms below a room."""
    return set().union(*({there} | reach(graph, there) for there in graph[start]))


def shortest(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the arrows that do not follow from others."""
    return {
        here: {
            there
            for there in below
            if not any(there in reach(graph, other) for other in below if other != there)
        }
        for here, below in graph.items()
    }


def levels(graph: dict[str, set[str]]) -> dict[str, int]:
    """Return the height of each room: one more than the highest room it imports from."""
    height: dict[str, int] = {}

    def visit(here: str) -> int:
        if here not in height:
            height[here] = 1 + max((visit(there) for there in graph[here]), default=-1)
        return height[here]

    for here in graph:
        visit(here)
    return height


def places(graph: dict[str, set[str]], height: dict[str, int]) -> dict[str, tuple[float, float]]:
    """Return the centre of each box; within a level, rooms are above what they import from."""
    rows = [sorted(r for r in graph if height[r] == level) for level in range(max(height.values()) + 1)]
    width = max(len(row) for row in rows) * (BOX[0] + GAP)
    x = {}
    for row in rows:
        below = {r: sum(x[t] for t in graph[r]) / len(graph[r]) if graph[r] else width / 2 for r in row}
        if len(row) == 1:  # arrows of higher rooms pass beside it
            x |= below
            continue
        for i, here in enumerate(sorted(row, key=lambda r: (below[r], r))):
            x[here] = width * (i + 0.5) / len(row)
    top = max(height.values())
    return {r: (x[r], (top - height[r]) * STEP + BOX[1]) for r in graph}


def svg() -> str:
    """Return the picture."""
    graph = arrows()
    height = levels(graph)
    at, drawn = places(shortest(graph), height), shortest(graph)
    wide = max(x for x, _ in at.values()) + BOX[0] / 2 + GAP
    tall = max(y for _, y in at.values()) + BOX[1]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {tall:.0f}" font-family="sans-serif">',
        "<title>The packages of labelfold and their imports</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
        f'<rect width="{wide:.0f}" height="{tall:.0f}" fill="#ffffff"/>',
    ]
    for here in sorted(drawn):
        for there in sorted(drawn[here]):
            (x, y), (u, v) = at[here], at[there]
            y, v = y + BOX[1] / 2, v - BOX[1] / 2 - 2
            bend = (v - y) / 2
            out.append(
                f'<path d="M{x:.0f},{y:.0f} C{x:.0f},{y + bend:.0f} {u:.0f},{v - bend:.0f} {u:.0f},{v:.0f}" '
                'fill="none" stroke="#555" stroke-width="1.2" marker-end="url(#tip)"/>'
            )
    for here, (x, y) in sorted(at.items()):
        kind = "app" if here.startswith("app/") else "methods" if here in METHODS else "library"
        out += [
            f'<rect x="{x - BOX[0] / 2:.0f}" y="{y - BOX[1] / 2:.0f}" width="{BOX[0]}" height="{BOX[1]}" rx="6" '
            f'fill="{PALE[kind]}" stroke="#888"/>',
            f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" font-size="14">{escape(here)}</text>',
        ]
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(svg(), encoding="utf-8")
    print(f"wrote {PICTURE.name}")
