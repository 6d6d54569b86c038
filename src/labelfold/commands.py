"""The commands: methods, fit, transform, compare and demo."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from labelfold.console import (
    accuracy_grid,
    as_fitted,
    console,
    named_columns,
    read_labelled,
    split_commas,
    whole_numbers,
)
from labelfold.files.problem import (
    FileProblem,
    Refusal,
    existing_file,
    listed,
    refusing,
    writable_file,
    writable_folder,
)

app = typer.Typer(
    name="labelfold",
    help="Fold wide data along its labels: supervised and semi-supervised dimensionality reduction.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Data = Annotated[
    Path, typer.Argument(help="A .csv, .tsv, .parquet, .npz or .svmlight file.", show_default=False)
]
Target = Annotated[
    str | None,
    typer.Option("--target", "-t", help="The column of labels; empty cells and -1 are unlabelled rows."),
]
Ids = Annotated[
    list[str] | None, typer.Option("--id", help="A column that names the rows (may be repeated).")
]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out (may be repeated).")]
Unlabelled = Annotated[
    list[str] | None,
    typer.Option("--unlabeled", help="A label that means none, besides an empty cell (may be repeated)."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="csv, tsv, parquet, npz or svmlight, if not by the file's ending."),
]
Scale = Annotated[bool, typer.Option("--scale", help="Bring the columns to a common scale first.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"labelfold {version('labelfold')}")
        raise typer.Exit


@app.callback()
def _common(
    show: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command("methods")
def list_methods() -> None:
    """List the methods, those that are planned too."""
    from labelfold.methods import METHODS, available_methods

    there = Grid(title="Methods", title_justify="left", box=None, pad_edge=False)
    for heading in ("name", "learns from", "embeds", "what it does"):
        there.add_column(heading, overflow="fold")
    for m in available_methods():
        rows = "labelled rows" if m.labels == "supervised" else "all rows"
        there.add_row(m.name, rows, "yes" if m.embeds else "no", m.summary)
    planned = Grid(title="\nPlanned", title_justify="left", box=None, pad_edge=False)
    for heading in ("name", "what it does", "paper"):
        planned.add_column(heading, overflow="fold")
    for m in METHODS.values():
        if m.status == "planned":
            planned.add_row(m.name, m.summary, m.paper)
    out = console()
    out.print(there)
    out.print(planned)


@app.command()
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    target: Target = None,
    method: Annotated[str, typer.Option("--method", "-m", help="See: labelfold methods.")] = "lda",
    components: Annotated[
        int | None, typer.Option("-k", "--components", help="Size of the embedding.")
    ] = None,
    ridge: Annotated[
        float | None, typer.Option("--ridge", help="The ridge of lda; by cross-validation unless given.")
    ] = None,
    ids: Ids = None,
    drop: Drop = None,
    unlabelled: Unlabelled = None,
    format: Format = None,
    scale: Scale = False,
    seed: Seed = 0,
) -> None:
    """Fit a method on a table and save the model."""
    from labelfold.adapters import settled
    from labelfold.files import save_model
    from labelfold.labels import read_labels
    from labelfold.methods import get_method

    with refusing():
        chosen = get_method(method)
        if not chosen.embeds:
            raise Refusal(f"The method {chosen.name!r} gives no embedding; it is there to compare with.")
        if components is not None and components < 1:
            raise Refusal(f"-k is the size of the embedding, at least 1, not {components}.")
        if ridge is not None and (ridge < 0 or chosen.penalty != "ridge"):
            wrong = f"--ridge is at least 0, not {ridge}" if ridge < 0 else f"{chosen.name!r} has no ridge"
            raise Refusal(f"{wrong}.")
        writable_file(output)
        table = read_labelled(data, target, ids, drop, unlabelled, format)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fit reads the labels again and warns then
            labels = read_labels(table.y, estimator=chosen.title)
        X = named_columns(table)
        penalty = {} if ridge is None else {"ridge": ridge}
        model = chosen.make(components, X=table.X, random_state=seed, scale=scale, **penalty)
        model = settled(model.fit(X, table.y))
    save_model(model, output, method=chosen.name, target=target, index_base=table.index_base)
    n, d = table.X.shape
    size = model.transform(X[:1]).shape[1]
    last = model[-1] if scale else model
    value = f", ridge {last.ridge:.3g}" if hasattr(last, "ridge") else ""
    console().print(
        f"{chosen.title} with {size} component{'s' * (size > 1)}{value}, fitted on {n:,} rows × {d:,} "
        f"columns, {labels.n_labelled:,} rows labelled in {labels.n_classes} classes.\nSaved to {output}",
        soft_wrap=True,
    )


@app.command()
def transform(
    model: Annotated[Path, typer.Argument(help="A model that labelfold fit wrote.", show_default=False)],
    data: Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .parquet, .csv, .tsv or .npz file to write.")
    ],
    ids: Ids = None,
    drop: Drop = None,
    format: Format = None,
    predict: Annotated[
        bool, typer.Option("--predict", help="Add a column with the predicted class.")
    ] = False,
) -> None:
    """Embed the rows of a table with a saved model."""
    from labelfold.files import read_model, read_table, write_table
    from labelfold.files.writing import writable_table

    existing_file(data)
    writable_table(output)
    saved = read_model(model)
    if not hasattr(saved.model, "transform"):
        raise Refusal(f"The model in {model} gives no embedding.")
    if predict and not hasattr(saved.model, "predict"):
        raise Refusal(f"The model in {model} predicts no classes; leave out --predict.")
    names = saved.meta.get("feature_names")
    table = read_table(
        data,
        id_columns=ids or (),
        drop=drop or (),
        features=names,
        format=format,
        index_base=saved.meta.get("index_base"),
    )
    if table.ignored:
        typer.echo(f"Note: ignored {listed(table.ignored)}, which the model does not use.", err=True)
    with refusing():
        X = as_fitted(table, saved, data)
        embedded = saved.model.transform(X)
        extra = {"predicted": saved.model.predict(X)} if predict else None
        columns = [str(c) for c in saved.model.get_feature_names_out()]
    write_table(output, embedded, columns, ids=table.ids, extra=extra)
    n, k = embedded.shape
    console().print(
        f"{n:,} row{'s' * (n > 1)} in {k} component{'s' * (k > 1)} written to {output}", soft_wrap=True
    )


@app.command("compare")
def compare_command(
    data: Data,
    target: Target = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--methods", "-m", help="Names, with commas between; all unless given."),
    ] = None,
    budgets: Annotated[
        list[str] | None, typer.Option("--budgets", "-b", help="Numbers of labels, with commas between.")
    ] = None,
    components: Annotated[
        list[str] | None,
        typer.Option("-k", "--components", help="Sizes of the embedding, with commas between."),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", "-r", help="Draws of test rows and labels.")] = 5,
    seed: Seed = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for report and results.")] = Path(
        "labelfold-compare"
    ),
    ids: Ids = None,
    drop: Drop = None,
    unlabelled: Unlabelled = None,
    format: Format = None,
    scale: Scale = False,
) -> None:
    """Find out which method does best with how many labels: a table and an HTML report."""
    from labelfold.methods import get_method

    with refusing():
        names = split_commas(methods)
        chosen = None if names is None else [get_method(name) for name in names]
        sizes, counts = whole_numbers("-k", components), whole_numbers("--budgets", budgets)
        if repeats < 1:
            raise Refusal(f"--repeats is at least 1, not {repeats}.")
        existing_file(data)
        writable_folder(output)
        table = read_labelled(data, target, ids, drop, unlabelled, format)
    settings = {"methods": chosen, "budgets": counts, "n_components": sizes, "repeats": repeats}
    _compare(table.X, table.y, output, name=data.name, random_state=seed, scale=scale, **settings)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for report and results.")] = Path(
        "demo"
    ),
    seed: Seed = 0,
) -> None:
    """Compare the methods on scikit-learn's handwritten digits."""
    from sklearn.datasets import load_digits

    writable_folder(output)
    X, y = load_digits(return_X_y=True)
    console().print(
        f"Data: scikit-learn's handwritten digits, {X.shape[0]:,} images × {X.shape[1]} pixels, 10 classes."
    )
    name = "the handwritten digits"
    _compare(X, y, output, name=name, budgets=[20, 50, 100, 200], random_state=seed)


def _compare(X: Any, y: Any, output: Path, **settings: Any) -> None:
    """Run a comparison, show it and write it down."""
    from labelfold.comparison import compare

    with refusing():
        found = compare(X, y, progress=sys.stderr.isatty(), **settings)
    out = console()
    out.print(accuracy_grid(found))
    report = found.report(output / "report.html")
    results = output / "results.csv"
    try:
        found.results.to_csv(results, index=False)
    except OSError as error:
        raise FileProblem(f"{results} could not be written: {error.strerror or error}.") from error
    for label, why in (
        found.table.dropna(subset="error").groupby("label", sort=False)["error"].first().items()
    ):
        out.print(f"{label} failed: {why}.")
    out.print(f"\n{found.answer}\n\nReport   {report}\nResults  {results}", soft_wrap=True)
    if found.interrupted:
        raise KeyboardInterrupt
