"""`labelfold label` as a user runs it: in a process of its own, killed, restarted, twice at once; and a notebook."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import suppress

import httpx
import numpy as np
import pandas as pd
import pytest
from small_session import flowers

import labelfold
from labelfold.app.commands._cli import main
from labelfold.app.io import read_table

MAIN = "import sys; from labelfold.app.commands._cli import main; sys.exit(main())"


class Served:
    """A command in a process of its own, and a client of its page."""

    def __init__(self, folder, *options):
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "label", *options, "--no-browser"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.url = self.process.stdout.readline().strip()

    def post(self, path, **body):
        origin = self.url.rstrip("/").rsplit("/", 1)[0]
        answer = httpx.post(self.url + path, json=body, headers={"origin": origin}, timeout=20)
        answer.raise_for_status()
        return answer.json()

    def state(self):
        return httpx.get(self.url + "state", timeout=20).json()

    def end(self, how):
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABELFOLD_DEBUG", raising=False)
    frame, _ = flowers()
    frame.to_csv("flowers.csv", index=False)
    return tmp_path


def refuse(capsys, *command):
    assert main([str(part) for part in command]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    sentence = err.strip().splitlines()[-1]
    assert sentence.startswith("labelfold: ")
    assert sentence.endswith(".")
    return sentence


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is of POSIX")
def test_kill_in_the_middle_loses_nothing_and_two_do_not_write(folder):
    command = ("flowers.csv", "--target", "kind", "--who", "ada", "--seed", "3")
    before = (folder / "flowers.csv").read_bytes()
    served = Served(folder, *command)
    second = Served(folder, *command)
    code, _, err = second.end(0)
    assert (code, "is being written by another labelling page" in err) == (2, True)
    given, tried = {}, 0
    killing = threading.Timer(0.1, served.process.kill)
    with suppress(httpx.HTTPError):  # killed in the middle of one
        for tried in range(1, 60):
            served.post("label", rows=[tried - 1], label=f"kind {tried % 3}")
            given[tried - 1] = f"kind {tried % 3}"
            if tried == 5:
                killing.start()
    killing.join()
    served.end(signal.SIGKILL)
    with (folder / "flowers.labels.csv").open("ab") as file:
        file.write(b"60,flower 59,ki")  # what a kill in the middle of a write leaves
    served = Served(folder, *command)
    state = served.state()
    assert len(given) <= state["labelled"] <= tried
    assert "was not finished" in state["notes"][0]
    assert (state["who"], state["file"], state["target"]) == ("ada", "flowers.labels.csv", "kind")
    assert served.post("label", rows=[59], label="last")["labelled"] == state["labelled"] + 1
    assert served.post("undo")["labelled"] == state["labelled"]
    code, out, err = served.end(signal.SIGINT)
    assert code == 0, err
    assert out.strip().splitlines() == [f"{state['labelled']} rows labelled, in flowers.labels.csv."]
    assert (folder / "flowers.csv").read_bytes() == before
    table = read_table(folder / "flowers.csv", target="kind", labels=folder / "flowers.labels.csv")
    assert {i: table.y[i] for i in given} == given


def test_compare_and_fit_take_the_journal(folder, capsys):
    frame, truth = flowers()
    with labelfold.label(frame.drop(columns="name"), ids=frame["name"], file="a.labels.csv") as page:
        session = page._running.session
        for row in range(24):
            session.label([row], str(truth[row]))
        session.label([0], "long")
        session.undo()
    frame.rename(columns={"name": "id"}).to_csv("a.csv", index=False)
    assert main(["fit", "a.csv", "--labels", "a.labels.csv", "-m", "lda", "-o", "model"]) == 0
    assert "24 rows labelled in 3 classes" in capsys.readouterr().out


def test_a_port_in_use_is_a_sentence_only_where_it_was_asked_for(folder, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refuse(capsys, "label", "flowers.csv", "--target", "kind", "--port", port, "--no-browser")
    assert f"Port {port} cannot be used" in said
    assert "--port is a number" in refuse(capsys, "label", "flowers.csv", "--port", 70000, "--no-browser")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_folder_is_refused_before_anything_is_read(folder, capsys):
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert "Nothing can be written" in refuse(capsys, "label", "flowers.csv", "--target", "kind")
    finally:
        folder.chmod(stat.S_IRWXU)


def test_a_folder_that_takes_no_file_is_refused_before_anything_is_read(folder, capsys, monkeypatch):
    """The same for root: the folder of the labels is no folder that takes files."""
    monkeypatch.setattr("labelfold.app.commands._label.read_to_label", pytest.fail)
    assert "no folder" in refuse(capsys, "label", "flowers.csv", "-o", folder / "nowhere" / "l.csv")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--target kind --strategy best", "is no strategy"),
        ("--target kind --who \x1b[31m", "control characters"),
        ("--target length --target width", "one class on the page"),
        ("--target height", "numbers"),
        ("--labels other.csv", "There is no file"),
        ("--target kind --labels flowers.labels.csv", "leave out --labels"),
    ],
)
def test_what_cannot_be_is_a_sentence(folder, capsys, options, words):
    assert words in refuse(capsys, "label", "flowers.csv", *options.split(), "--no-browser")


def test_a_target_that_the_table_lacks_is_said(folder, capsys, monkeypatch):
    monkeypatch.setattr("labelfold.app.label._server.Running.serve", lambda self: self.close())
    assert main(["label", "flowers.csv", "--target", "colr", "--no-browser"]) == 0
    out, err = capsys.readouterr()
    assert "has no column 'colr' (did you mean 'colour'?)" in err
    assert out.splitlines()[0].startswith("http://127.0.0.1:")
    assert out.splitlines()[1] == "0 rows labelled, in flowers.labels.csv."
    assert len(out.splitlines()) == 2


def test_without_a_browser_the_address_is_printed(folder, capsys, monkeypatch):
    monkeypatch.setattr("labelfold.app.label._server.Running.serve", lambda self: self.close())
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url))
    assert main(["label", "flowers.csv", "--target", "kind"]) == 0
    out, err = capsys.readouterr()
    assert opened == [out.splitlines()[0]]
    assert "no browser could be opened" in err


def test_the_notebook_handle(folder):
    X = np.random.default_rng(0).standard_normal((30, 4))
    with labelfold.label(X, [0, 1.0, None, -1, "a"] + [None] * 25, file=folder / "l.csv") as page:
        assert page.labels()[:6].tolist() == ["0", "1", None, None, "a", None]
        page._running.session.label([5], "b")
        assert httpx.get(page.url + "state").json()["labelled"] == 4
        assert page.url in page._repr_html_()
        assert "4 rows labelled" in repr(page)
    assert page.labels()[5] == "b"
    with pytest.raises(httpx.ConnectError):
        httpx.get(page.url + "state")
    again = labelfold.label(pd.DataFrame(X), file=folder / "m.csv")
    again.close()
    with pytest.raises(ValueError, match="3 ids for 30 rows"):
        labelfold.label(X, ids=[1, 2, 3], file=folder / "l.csv")
    with pytest.raises(ValueError, match="pass one label a row"):
        labelfold.label(X, [1, 2], file=folder / "l.csv")
