"""The commands compare, datasets and demo."""

from __future__ import annotations

import json
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelfold.app.commands import _options as options
from labelfold.app.commands._apply import columns_of, write_predictions
from labelfold.app.commands._console import (
    MAX_METHODS,
    accuracy_grid,
    console,
    note,
    read_labelled,
    recipe_for,
    row_names,
    say,
    split_commas,
    whole_numbers,
)
from labelfold.app.commands._options import MEMORY, GivenRows, app, sides, takes_rows
from labelfold.app.io import (
    FileProblem,
    Refusal,
    count,
    did_you_mean,
    find,
    hide_password,
    pd,
    printable,
    refusing,
    writable_file,
    writable_folder,
)

if TYPE_CHECKING:
    import numpy as np

Folder = Annotated[Path, typer.Option("--output", "-o", help="The folder for report and results.")]
Limit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        help="Seconds for the whole command. Methods that do not finish in time are left out; the first run of "
        "LabelFold is not limited. Default: about 50, more for a large table.",
    ),
]
# Share of the time limit for the runs; the last fit, the map and the report take the rest.
_RUNS_END = 0.75
_DEMO_LABELS = 100  # a choice of presentation: about ten a digit
_DEMO: dict[str, Any] = {"time_limit": 60}
_MADE = (
    "model.skops",
    "embedding.parquet",
    "predictions.csv",
    "annotated.h5ad",
    "answer.json",
    "report.html",
)


@app.command("compare", epilog=MEMORY["compare"])
@takes_rows
def compare_command(
    context: typer.Context,
    rows: GivenRows,
    methods: Annotated[
        list[str] | None,
        typer.Option("--methods", "-m", help="Names, separated by commas. Default: all that suit the data."),
    ] = None,
    budgets: Annotated[
        list[str] | None,
        typer.Option("--budgets", "-b", help="Numbers of labels for a learning curve, separated by commas."),
    ] = None,
    components: Annotated[
        list[str] | None,
        typer.Option("-k", "--components", help="Numbers of components, separated by commas."),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", "-r", help="Number of random draws of the folds.")] = 5,
    time_limit: Limit = None,
    save: Annotated[
        bool, typer.Option("--save", help="Also write the best model, its embedding and its predictions.")
    ] = False,
    image_shape: options.ImageShape = None,
    seed: options.Seed = 0,
    output: Folder = Path("labelfold-compare"),
    group: options.Group = None,
    label_free: options.LabelFree = None,
    scale: options.Scale = None,
    task: options.Task = "auto",
    class_weight: options.ClassWeight = None,
    to_table: options.ToTable = None,
    safe_csv: options.SafeCsv = False,
) -> None:
    """Find the best method for a table and its expected accuracy (R² for numbers), and write a report.

    Each result is written to disk as soon as it is known. The same command resumes after it was stopped or killed.
    """
    from labelfold.app.compare import MAX_REPEATS
    from labelfold.app.io import refuse_destination
    from labelfold.app.registry import get_method

    with refusing():
        names = split_commas(methods)
        chosen = None if names is None else [get_method(name) for name in names]
        sizes, counts = whole_numbers("-k", components), whole_numbers("--budgets", budgets)
        if not 1 <= repeats <= MAX_REPEATS:
            raise Refusal(f"--repeats is at least 1 and at most {MAX_REPEATS:,}, not {repeats}.")
        if time_limit is not None and not time_limit > 0:
            raise Refusal(f"--time-limit is a number of seconds above 0, not {time_limit:g}.")
        shape = sides("--image-shape", image_shape)
        weights = options.class_weight_of(class_weight)
        where = find(rows.data, rows.reading)[1]
        writable_folder(output)
        refuse_files(output, where, rows.labels)
        if to_table is not None and not save:
            raise Refusal("--to-table writes the predictions that --save makes; give that too.")
        refuse_destination(where, None, to_table)
        table, mark = read_labelled(rows, label_free, task, group)
        recipe = recipe_for(table, rows.roles, rows.keep)
    _compare(
        table,
        mark,
        output,
        save,
        safe_csv=safe_csv,
        to_table=to_table,
        time_limit=time_limit,
        began=context.obj,
        methods=chosen,
        budgets=counts,
        components=sizes,
        repeats=repeats,
        task=task,
        scale="auto" if scale is None else scale,
        recipe=recipe,
        image_shape=shape or table.image_shape,
        random_state=seed,
        class_weight=weights,
    )


def _compare(
    table: Any,
    mark: Any,
    output: Path,
    save: bool,
    command: str | None = None,
    safe_csv: bool = False,
    to_table: str | None = None,
    *,
    time_limit: float | None,
    began: float,
    **settings: Any,
) -> None:
    """Run a comparison, print it and write its files; ``began`` is the time when the command started."""
    from labelfold.app.compare import NothingHeldOut
    from labelfold.app.io import FolderLock
    from labelfold.app.report import compare

    called = printable(str(table.source.name or table.source))
    if time_limit is not None:
        time_limit = max(_RUNS_END * time_limit - (time.perf_counter() - began), time_limit / 4)
    with FolderLock(output) as folder:
        refuse_files(output)
        with refusing():
            try:
                found = compare(
                    table.to_learn(),
                    table.y,
                    ids=row_names(table),
                    unlabeled=mark,
                    folder=folder,
                    progress=sys.stderr.isatty(),
                    tell=lambda text: typer.echo(printable(text), err=True),
                    time_limit=time_limit,
                    command=command
                    or printable(shlex.join(["labelfold", *map(hide_password, sys.argv[1:])])),
                    feature_names=table.feature_names,
                    groups=table.groups,
                    **{"name": called} | settings,
                )
            except NothingHeldOut as nothing:
                if not save:
                    raise
                how: dict[str, Any] = {name: settings.get(name) for name in ("random_state", "class_weight")}
                list_files(output, write_labelfold_alone(nothing, table, output, safe_csv, to_table, **how))
                return
        interrupted = found.interrupted
        try:
            # a closed pipe or a full disk behind standard output must not prevent the files
            with suppress(OSError, SystemExit):
                _show(found)
            _ = found.review
        except KeyboardInterrupt:  # another Ctrl-C: write the report without further fits
            interrupted = True
            found.forgo_review()
        with refusing():
            written = write_files(found, table, output, save, safe_csv, to_table)
    list_files(output, written)
    if interrupted:
        raise KeyboardInterrupt


def _show(found: Any) -> None:
    """Print the answer, the table of the best methods, and errors."""
    say("\n".join([found.answer, *found.details]) + "\n")
    console().print(accuracy_grid(found))
    failed = found.table.dropna(subset="error").groupby("label", sort=False)["error"].first()
    for label, why in failed.items():
        say(f"{label} failed: {why}.")
    if (more := len(found.ranking) - MAX_METHODS) > 0:
        say(f"{count(more, 'more method')} in the report.")
    if found.left_out:
        say(f"{count(len(found.left_out), 'method')} left out; the report says why.")


def refuse_files(output: Path, *given: object) -> None:
    """Raise an error if a file in the folder cannot be written, or is one of those that are read."""
    for name in (*_MADE, "results.csv", "run.json"):
        writable_file(output / name, *given)


def write_files(
    found: Any, table: Any, output: Path, save: bool, safe_csv: bool, to_table: str | None
) -> dict[str, Path]:
    """Write the report, the answer and, with ``save``, the model; return the files as first written."""
    from labelfold.app.io import finished_together, write_finished
    from labelfold.app.report import write_report

    with finished_together(output, _MADE) as aside:
        written = {"Report": aside / "report.html", "Results": aside / "results.csv"}
        made = {"results.csv"}
        if found.winner is not None:
            text = json.dumps(answer_of(found), indent=1, ensure_ascii=False) + "\n"
            made.add(write_finished(aside / "answer.json", text.encode()).name)
            if save:
                method = found.methods[found.winner["method"]]
                written |= _save(
                    found.fitted(), method, found.data, found.choice, table, aside, safe_csv, to_table
                )
        write_report(found, written["Report"], output, made | {path.name for path in written.values()})
    return written


def write_labelfold_alone(
    nothing: Any,
    table: Any,
    output: Path,
    safe_csv: bool,
    to_table: str | None,
    *,
    random_state: int,
    class_weight: Any,
) -> dict[str, Path]:
    """Fit and save LabelFold if there are too few labels for a comparison; return the files as first written."""
    from labelfold.app.compare import fit_with_expectation
    from labelfold.app.io import finished_together
    from labelfold.app.registry import get_method, read_class_weight

    data, method = nothing.data, get_method("labelfold")
    how = {"random_state": random_state, "task": data.facts.task}
    how["class_weight"] = read_class_weight(class_weight, data.labels)
    model = fit_with_expectation(lambda X: method.make(X=X, **how), data, random_state).model
    say(
        f"LabelFold was fitted and nothing compared: {nothing.why}. How well it predicts is not known; label more "
        "rows."
    )
    with finished_together(output, _MADE) as aside:
        return _save(model, method, data, None, table, aside, safe_csv, to_table)


def list_files(output: Path, written: dict[str, Path]) -> None:
    """Print the files, which are in the folder now, and the next command."""
    width = max(map(len, written))
    places = {what: output / path.name for what, path in written.items()}
    say("\n" + "\n".join(f"{what:<{width}}  {path}" for what, path in places.items()))
    if "Model" in places:
        say(f"\nNext: labelfold predict {shlex.quote(str(places['Model']))} new.csv")


def answer_of(found: Any) -> dict[str, Any]:
    """Return the content of answer.json."""
    facts = {
        "method": found.best_,
        "components": found.best_size_,
        "metric": found.settings["metric"],
        "class_weight": _named_weights(found),
        "answer": found.answer,
        "details": found.details,
    }
    if found.choice is not None:
        expected = ("expected", "low", "high", "n_rows", "n_groups", "within", "equal")
        facts |= {name: getattr(found.choice, name) for name in expected}
    return facts


def _named_weights(found: Any) -> Any:
    """Return the weights of the classes by name; None or "balanced" as they are."""
    weights = found.settings["class_weight"]
    return (
        {found.data.classes[code]: one for code, one in weights.items()}
        if isinstance(weights, dict)
        else weights
    )


def _save(
    model: Any,
    method: Any,
    data: Any,
    choice: Any,
    table: Any,
    output: Path,
    safe_csv: bool,
    to_table: str | None,
) -> dict[str, Path]:
    """Write a fitted model, its embedding and its predictions of all rows; return the files by name."""
    import numpy as np

    from labelfold.app.compare import named_rows, predict_with_confidence, save_fit
    from labelfold.app.io import Unsavable, write_table

    X = data.X
    embedded = np.asarray(model.transform(X)) if method.embeds else None
    written = {}
    try:
        written["Model"] = save_fit(output / "model.skops", model, method, table, data, embedded, choice)
    except Unsavable as error:
        note(str(error))
    ids = named_rows(table, data.recipe)
    columns: list[str] = []
    if embedded is not None:
        columns = [str(c) for c in model.get_feature_names_out()]
        written["Embedding"] = write_table(output / "embedding.parquet", embedded, columns, ids=ids)
    given = {"label": data.y if data.facts.numbers else [data.named(y) for y in data.y]}
    within = None if choice is None else choice.within
    said = columns_of(
        *predict_with_confidence(model, X), data.classes, within, numbers=not hasattr(model, "classes_")
    )
    extra = given | said
    nothing = np.empty((len(data.y), 0))
    written["Predictions"] = write_table(
        output / "predictions.csv", nothing, [], ids=ids, extra=extra, safe_csv=safe_csv
    )
    if getattr(table.source, "suffix", "").lower() == ".h5ad":
        shown = nothing if embedded is None else embedded
        written["Copy"] = write_table(
            output / "annotated.h5ad", shown, columns, extra=said, source=table.source
        )
    if to_table is not None:
        write_predictions(table, to_table, ids, extra)
    return written


@dataclass(frozen=True)
class ExampleSet:
    """A data set: its name, its loader in ``sklearn.datasets``, the name of its target, and a description."""

    name: str
    loader: str
    target: str
    what: str

    @cached_property
    def data(self) -> tuple[np.ndarray, list[str], np.ndarray]:
        """The rows, the names of the columns, and the labels: digits as numbers and classes by name."""
        import numpy as np
        from sklearn import datasets

        bunch = getattr(datasets, self.loader)()
        y = bunch.target if self.name == "digits" else np.asarray(bunch.target_names)[bunch.target]
        return bunch.data, [str(n) for n in bunch.feature_names], y

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(set(self.data[2]))


EXAMPLE_SETS = {
    entry.name: entry
    for entry in (
        ExampleSet("digits", "load_digits", "digit", "handwritten digits, 8 x 8 pixels"),
        ExampleSet("breast-cancer", "load_breast_cancer", "diagnosis", "cell nuclei of breast masses"),
        ExampleSet("wine", "load_wine", "cultivar", "chemical analysis of wines"),
        ExampleSet("iris", "load_iris", "species", "measurements of irises"),
    )
}


def write_example_set(name: str, path: str | Path | None, labels: int | None = None, seed: int = 0) -> Path:
    """Write a data set as a table with row names and a target, in which some labels are kept.

    Parameters
    ----------
    name : str
        Name of the data set.
    path : path, optional
        The .csv, .tsv or .parquet file; ``name.csv`` by default.
    labels : int, optional
        Number of labels to keep, at least one of each class; all by default.
    seed : int, default=0
        Seed of the draw.

    Returns
    -------
    Path
        The file written.
    """
    import numpy as np

    from labelfold.app.io import write_table

    if name not in EXAMPLE_SETS:
        raise FileProblem(
            f"There is no data set {name!r}{did_you_mean(name, EXAMPLE_SETS)}; there are {', '.join(EXAMPLE_SETS)}."
        )
    X, names, y = EXAMPLE_SETS[name].data
    y = y.astype(object)
    if labels is not None:
        classes, n = EXAMPLE_SETS[name].classes, len(y)
        if not classes <= labels <= n:
            raise FileProblem(
                f"--labels is from {classes}, one a class, to {n}, all there are, not {labels}."
            )
        order = np.random.default_rng(seed).permutation(n)
        # one label of each class first, then others in random order
        first = np.unique(y[order].astype(str), return_index=True)[1]
        kept = np.concatenate([first, np.setdiff1d(np.arange(n), first)])[:labels]
        hidden = np.ones(n, dtype=bool)
        hidden[order[kept]] = False
        y[hidden] = None
    rows = pd.DataFrame({"row": [f"{name}-{i}" for i in range(1, len(y) + 1)]})
    path = Path(f"{name}.csv") if path is None else path
    return write_table(path, X, names, ids=rows, extra={EXAMPLE_SETS[name].target: y})


@app.command(epilog=MEMORY["shipped"])
def datasets(
    name: Annotated[str | None, typer.Argument(help="The set to write. Default: list all.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv, .tsv or .parquet file to write.")
    ] = None,
    labels: Annotated[
        int | None, typer.Option("--labels", help="Number of labels to keep. Default: all.")
    ] = None,
    seed: options.Seed = 0,
) -> None:
    """List the data sets that come with scikit-learn, or write one as a table to try things on."""
    if name is None:
        from rich.table import Table as Grid

        grid = Grid(box=None, pad_edge=False)
        for heading in ("name", "rows", "columns", "classes", "what it is"):
            grid.add_column(heading, justify="right" if heading in ("rows", "columns", "classes") else "left")
        for entry in EXAMPLE_SETS.values():
            n, d = entry.data[0].shape
            grid.add_row(entry.name, f"{n:,}", str(d), str(entry.classes), entry.what)
        console().print(grid)
        return
    with refusing():
        path = write_example_set(name, output, labels, seed)
        entry = EXAMPLE_SETS[name]
    n, d = entry.data[0].shape
    kept = n if labels is None else labels
    say(
        f"{entry.what}: {n:,} rows × {d} columns, {kept:,} rows labelled in {entry.classes} "
        f"classes, written to {path}.\nlabelfold compare {shlex.quote(str(path))} --target {entry.target} --id row"
    )


@app.command(epilog=MEMORY["shipped"])
def demo(context: typer.Context, output: Folder = Path("demo"), seed: options.Seed = 0) -> None:
    """Compare the methods on scikit-learn's handwritten digits, most of their labels hidden."""
    import numpy as np

    from labelfold.app.io import read_table

    writable_folder(output)
    entry = EXAMPLE_SETS["digits"]
    (n, d), truth = entry.data[0].shape, entry.data[2]
    path = write_example_set("digits", output / "digits.csv", _DEMO_LABELS, seed)
    command = (
        f"labelfold compare {path} --target {entry.target} --id row --time-limit {_DEMO['time_limit']} --save "
        f"--output {output}"
    )
    say(
        f"Data: scikit-learn's handwritten digits, {n:,} images × {d} pixels, "
        f"{_DEMO_LABELS} of them labelled.\nThis is: {command}"
    )
    table = read_table(path, target=entry.target, id_columns=["row"])
    _compare(
        table,
        -1,
        output,
        True,
        command,
        random_state=seed,
        name="the handwritten digits",
        began=context.obj,
        **_DEMO,
    )
    assert table.y is not None
    hidden = np.array([label is None for label in table.y])
    said: Any = read_table(output / "predictions.csv", target="predicted", id_columns=["row", "label"]).y
    share = np.mean(said[hidden] == truth[hidden])
    say(f"\nOf the {hidden.sum():,} images whose label was hidden, the model names {share:.1%} rightly.")
