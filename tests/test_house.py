"""The rules of the source tree: names, sizes, and which package may import which."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import labelfold

HOUSE = Path(labelfold.__file__).parent
FILES = sorted(HOUSE.rglob("*.py"))

# From the bottom up. A room is a package, or a module beside the packages; it imports itself and rooms above it here.
LAYERS = [
    {"utils"},
    {"saved"},
    {"rows", "labels"},
    {"base"},
    {"numerics"},
    {"features"},
    {"model_selection"},
    {"discriminant", "factorization", "subspace", "semi_supervised"},
    {"tables"},
    {"app/io"},
    {"app/registry"},
    {"app/compare"},
    {"app/report"},
    {"app/label"},
    {"app/commands"},
    {"__main__"},
]
ROOMS = {found for layer in LAYERS for found in layer}
# A module whose very path is public: model files name classes by it.
PUBLIC = {"saved.py"}
FAMILIES = ["discriminant", "factorization", "subspace", "semi_supervised", "tables"]
APP_ONLY = {"jinja2", "pandas", "plotly", "pyarrow", "rich", "skops", "starlette", "typer", "uvicorn"}
# What else may import one of them, when it is used.
ALSO = {"rows": {"pyarrow"}, "tables": {"pyarrow"}}

# Files that ask what container they hold, with how often and why. Labels are not rows, and
# app/io reads and writes the containers of files; both are left out, as is rows/ itself.
ASKING = {
    "app/compare/_data.py": 1,  # a sparse X is not searched for columns that tell which rows are labelled
    "app/label/_table.py": 1,  # the cells of a table, of an array and of a sparse matrix as text
    "app/registry/_adapters.py": 1,  # scikit-learn has other estimators for a sparse X
    "features/_kernel_map.py": 1,  # all rows are kept sparse, or all are centred
    "numerics/_linear_svm.py": 1,  # coordinate descent reads a dense and a sparse row in two loops
    "numerics/_ridge_regression.py": 1,  # iterations are tried on sparse rows only
    "semi_supervised/_graph.py": 2,  # the user's matrix of pairs of rows; neighbours among all rows
    "semi_supervised/_trees.py": 1,  # a walk of all rows on a device, and of few rows in the cache
}


def name(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()


def room(path: Path) -> str:
    """Return the room that a file belongs to: a package, a package of the app, or a module beside them."""
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return "/".join(parts[:2]) if parts[0] == "app" else parts[0]


def room_of(module: str, what: str) -> str:
    """Return the room of an imported module; "" for the top level."""
    parts = [*module.split(".")[1:], what]
    return next((found for found in ("/".join(parts[:2]), parts[0]) if found in ROOMS), "")


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Give (module, name) for everything a file imports, anywhere in it but for type checkers; no name: all of it."""
    left: list[ast.AST] = [tree(path)]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            left.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}, line {node.lineno}: imports are absolute"
            yield from ((node.module, alias.name) for alias in node.names)
        left.extend(ast.iter_child_nodes(node))


def test_every_module_is_private_or_a_package():
    assert {name(path) for path in FILES if not path.name.startswith("_")} == PUBLIC
    folders = {path.parent for path in FILES}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_two_classes_share_a_name():
    classes = Counter(
        node.name for path in FILES for node in tree(path).body if isinstance(node, ast.ClassDef)
    )
    assert [found for found, times in classes.items() if times > 1] == []


@pytest.mark.parametrize("public", labelfold.__all__)
def test_a_public_name_has_one_home(public):
    value = getattr(labelfold, public)
    if not isinstance(value, type):
        return
    homes = [family for family in FAMILIES if public in import_module(f"labelfold.{family}").__all__]
    assert len(homes) == 1
    assert value is getattr(import_module(f"labelfold.{homes[0]}"), public)
    assert f"{value.__module__}.".startswith(f"labelfold.{homes[0]}.")


def test_imports_run_one_way():
    height = {found: i for i, layer in enumerate(LAYERS) for found in layer}
    upwards = []
    for path in FILES:
        here = room(path)
        if path == HOUSE / "__init__.py":  # it imports nothing until a name is used
            continue
        for module, what in imports(path):
            if module.split(".")[0] != "labelfold":
                continue
            there = room_of(module, what)
            below = height[there] < height[here] if there else here.startswith(("saved", "app"))
            if not below and there != here:
                upwards.append(f"{name(path)} imports {what} from {module}")
    assert upwards == []


def test_other_rooms_are_entered_through_their_doors():
    around = []
    for path in FILES:
        for module, what in imports(path):
            there = room_of(module, what)
            if module.split(".")[0] != "labelfold" or not there or there == room(path):
                continue
            if any(part.startswith("_") for part in [*module.split("."), what]):
                around.append(f"{name(path)} imports {what} from {module}")
    assert around == []


def test_a_door_names_what_other_rooms_use():
    """What a door exports is used elsewhere, or is public; and every name is there."""
    used = {
        (room_of(node.module or "", alias.name), alias.name)
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    used |= {
        (room_of(place.partition(":")[0], ""), place.partition(":")[2])
        for place in labelfold._PUBLIC.values()
    }
    public = {("rows", "read_rows")} | {
        ("model_selection", what) for what in import_module("labelfold.model_selection").__all__
    }
    idle = []
    for found in sorted(ROOMS - {"saved", "__main__"}):
        door = import_module("labelfold." + found.replace("/", "."))
        idle += [f"{found}: {what}" for what in door.__dir__() if (found, what) not in used | public]
        assert [what for what in door.__dir__() if not hasattr(door, what)] == []
    assert idle == []


def test_the_library_imports_none_of_the_apps_packages():
    found = [
        f"{name(path)} imports {module}"
        for path in FILES
        if not room(path).startswith("app")
        for module, _ in imports(path)
        if module.split(".")[0] in APP_ONLY - ALSO.get(room(path), set())
    ]
    assert found == []


def test_packages_are_imported_when_they_are_needed():
    """In a process of its own: passes, labels and solvers of small arrays need neither extras nor a compiler."""
    code = f"""
import sys
sys.modules["pandas"] = None  # whoever imports it fails
import numpy as np
from scipy.sparse import csr_array
import labelfold
from labelfold.numerics import linear_svm
from labelfold.labels import read_labels
from labelfold.rows import as_rows

as_rows(np.eye(3)).t(np.eye(3)), as_rows(csr_array(np.eye(3))).t(np.eye(3)), as_rows([np.eye(3)]).mean()
print(read_labels(["a", None, "b", float("nan")]).index.tolist())
print(read_labels([[1, 1], [None, None]], allowed=["multilabel"]).index.tolist())
del sys.modules["pandas"]
extras = {sorted(APP_ONLY)} + ["array_api_strict", "dask", "distributed", "numba", "torch"]
print([name for name in extras if name in sys.modules])
import dask.array
as_rows(dask.array.eye(3)).mean()
print("labelfold.rows.adapters._dask" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[0, 2]", "[0]", "[]", "True"]


def test_without_extras_every_name_is_there():
    """In a process of its own, in which the packages of the app seem not to be installed."""
    code = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {sorted(APP_ONLY)}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import labelfold

print(all(hasattr(labelfold, name) for name in labelfold.__all__))
try:
    labelfold.Recipe().fit([["a"]])
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "True",
        "Recipe reads tables with pyarrow: pip install 'labelfold[app]'.",
    ]


def test_the_command_line_works_without_further_extras(tmp_path):
    """In a process of its own, with the packages of the extra app alone."""
    code = """
import sys

FURTHER = {"PIL", "anndata", "dask", "distributed", "duckdb", "h5py", "httpx", "psycopg", "python_calamine",
           "sqlalchemy", "starlette", "torch", "uvicorn"}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in FURTHER:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from labelfold.app.commands import main

sys.exit(main(["fit", "t.csv", "-t", "kind", "--method", "lda", "-o", "m.skops"]))
"""
    lines = [f"{i % 7},{i % 3 + 0.1 * i},{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["x,z,kind", *lines]))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_a_file_is_one_thing():
    assert {name(path) for path in FILES if len(path.read_text().splitlines()) > 700} == set()


def test_private_names_of_scikit_learn_are_in_one_file():
    found = {
        name(path)
        for path in FILES
        for module, what in imports(path)
        if module.split(".")[0] == "sklearn"
        and any(part.startswith("_") and not part.startswith("__") for part in [*module.split("."), what])
    }
    assert found == {"utils/_sklearn.py"}


def asks_for_a_container(node: ast.AST) -> bool:
    """Return whether a node asks what an array is held in: `issparse`, `is_sparse`, `isinstance` of an array type."""
    if isinstance(node, ast.Attribute):
        return node.attr == "is_sparse" and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Compare):
        return ast.unparse(node).endswith(("xp is np", "xp is not np"))
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func).split(".")[-1]
    if called in ("issparse", "isspmatrix", "is_array_api_obj", "on_device"):
        return True
    words = ("sparse", "sp.", "memmap", "ndarray", "dask", "torch")
    return called == "isinstance" and any(word in ast.unparse(node.args[1]) for word in words)


def test_only_adapters_ask_what_container_they_hold():
    asking = {
        name(path): sum(map(asks_for_a_container, ast.walk(tree(path))))
        for path in FILES
        if room(path) not in ("rows", "labels") and not name(path).startswith("app/io/")
    }
    assert {path: times for path, times in asking.items() if times} == ASKING
    assert sum(ASKING.values()) <= 10


def test_eight_files_from_lda_to_its_solution():
    """What a reader opens to follow one fit, rows/ and scikit-learn's tags apart."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 8)), rng.integers(-1, 3, 60).astype(float)
    y[y < 0] = np.nan
    opened = set()

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and HOUSE in path.parents and frame.f_code.co_name != "__sklearn_tags__":
            opened.add(path)

    model = labelfold.LDA().fit(X, y)  # imports come with the first
    sys.setprofile(note)
    try:
        model.fit(X, y)
    finally:
        sys.setprofile(None)
    assert len({path for path in opened if room(path) != "rows"}) <= 8


def test_the_speeds_in_the_readme_are_those_of_the_benchmarks():
    root = Path(__file__).parents[1]
    readme, benchmarks = (
        path.read_text() for path in (root / "README.md", root / "benchmarks" / "README.md")
    )
    head = "| | compared with | time, ours over theirs | run | command |"
    shown = readme.partition(head)[2].partition("\n\n")[0].splitlines()[1:]
    assert len(shown) > 8
    assert [line for line in shown if line not in benchmarks.splitlines()] == []


def test_the_house_stays_small():
    """Files, names that pass a door, and numbers in constants: what a change adds here is to be worth it."""
    crossing, numbers = set(), 0
    for path in FILES:
        for module, what in imports(path):
            there = room_of(module, what)
            if module.split(".")[0] == "labelfold" and there and there != room(path):
                crossing.add((there, what))
        for node in tree(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            named = [
                found.id for target in targets for found in ast.walk(target) if isinstance(found, ast.Name)
            ]
            if named and all(found.lstrip("_").isupper() for found in named):
                values = [found.value for found in ast.walk(node.value) if isinstance(found, ast.Constant)]
                numbers += sum(type(value) in (int, float) for value in values)
    assert len(FILES) <= 180
    assert len(crossing) <= 275
    assert numbers <= 400
