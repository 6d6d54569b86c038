"""Requests that are legal and unusual: odd names, outputs that are inputs, numbers out of range, poor terminals."""

import io
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labelfold.app.commands._cli import main
from labelfold.app.compare._store import Clock
from labelfold.app.io import read_table

pytestmark = pytest.mark.usefixtures("quick_comparisons")


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABELFOLD_DEBUG", raising=False)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((30, 3)), columns=["a", "b", "c"])
    frame["kind"] = np.where(frame["a"] > 0, "x", "é")
    frame.to_csv("t.csv", index=False)
    return frame


FIT = "fit t.csv -t kind -m lda --ridge 1 -o {}"


@pytest.mark.parametrize(
    "command",
    [
        FIT.format("t.csv"),
        FIT.format("./t.csv"),
        "predict m.csv t.csv -o t.csv",
        "predict m.csv t.csv -o m.csv",
        "transform m.csv t.csv -o m.csv",
        "compare predictions.csv -t kind -m lda -r 1 --save -o .",
        "compare results.csv -t kind -m lda -r 1 -o .",
        "fit t.csv --labels l.csv -t kind -m lda -o l.csv",
    ],
)
def test_no_file_that_is_read_is_written_over(table, capsys, command):
    assert main(FIT.format("m.csv").split()) == 0
    for name in ("predictions.csv", "results.csv", "l.csv"):
        table.to_csv(name, index=False)
    before = {path: Path(path).read_bytes() for path in os.listdir()}
    capsys.readouterr()
    assert main(command.split()) == 2
    assert "is a file that is read; name another one to write." in capsys.readouterr().err
    assert {path: Path(path).read_bytes() for path in os.listdir()} == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--seed -5", "'--seed': Input should be greater than or equal to 0"),
        (f"--seed {2**32}", "'--seed': Input should be less than or equal to 4294967295"),
        ("--repeats 1000000000", "--repeats is at least 1 and at most 10,000, not 1000000000."),
    ],
)
def test_numbers_out_of_range_are_a_sentence(table, capsys, options, words):
    assert main(f"compare t.csv -t kind -m lda {options} -o r".split()) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("limit", [1e300, float("inf")])
def test_a_time_limit_that_no_alarm_takes(limit):
    with Clock(limit).turn():
        assert signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are any bytes there")
def test_a_file_name_that_is_no_text(table, capsys):
    os.rename("t.csv", "t\udcff.csv")
    assert (
        main(["compare", "t\udcff.csv", "-t", "kind", "-m", "lda", "-r", "1", "--save", "-o", "r\udcff"]) == 0
    )
    assert "r\\udcff/report.html" in capsys.readouterr().out
    assert {"report.html", "answer.json", "model.skops"} <= set(os.listdir("r\udcff"))


def test_a_terminal_of_few_letters(table, monkeypatch, ctrl_c):
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    for name, value in (
        ("stdout", out),
        ("unraisablehook", None),
        ("argv", ["labelfold", *FIT.format("m").split()]),
    ):
        monkeypatch.setattr(sys, name, value)
    assert main() == 0
    assert b"rows \\xd7 3 columns" in out.buffer.getvalue()


def test_a_header_that_would_steer_the_terminal_is_read(tmp_path):
    (tmp_path / "t.csv").write_text("a\x1b[31m,kind\x07\n1,x\n2,y\n")
    assert read_table(tmp_path / "t.csv").feature_names == ["a\\x1b[31m", "kind\\x07"]


def test_a_header_longer_than_what_is_looked_at(tmp_path):
    names = [f"column {j}" for j in range(30_000)]
    with (tmp_path / "t.csv").open("w") as file:
        file.write("# a remark\n" + ",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    assert read_table(tmp_path / "t.csv").raw.column_names == names


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (
            "-m lda -k 1000000000",
            2,
            "An embedding of 1000000000 components is larger than X, which has 3 columns.",
        ),
        ("-m lda --ridge 1 -k 3", 0, "-k 3 is more than the data determine; the model has 1."),
        ("-m svm -k 3", 0, "-k 3 has no effect: svm has no components."),
    ],
)
def test_components_that_cannot_be_had(table, capsys, options, status, words):
    assert main(f"fit t.csv -t kind {options} -o m".split()) == status
    assert words in " ".join("".join(capsys.readouterr()).split())
