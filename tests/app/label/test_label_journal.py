"""The file of labels: on the disk before it is shown, whole after a kill, never written by two."""

import errno
import os

import numpy as np
import pandas as pd
import pytest
from small_session import flowers, session_on

from labelfold.app.io import FileProblem, _label_file, read_table
from labelfold.app.io._label_file import Journal, Line, label_lines


def line(number, label, time="t", **more):
    return Line(number, (), label, time, "ada", "click", **more)


def test_lines_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "a.labels.csv"
    journal = Journal(path, ["name"], ["name", "x"])
    strange = Line(
        3, ('a,"b"\nc',), "=1+1; é 漢", "2026-01-01T00:00:00+00:00", "ada, b", "random", "x", 0.25, "ab-cd"
    )
    journal.append([strange, Line(4, ("d",), "", "t", "ada", "undo")])
    journal.close()
    again = Journal(path, ["name"])
    assert again.lines == [strange, Line(4, ("d",), "", "t", "ada", "undo")]
    assert again.notes == []
    assert path.read_text().splitlines()[0] == "row,name,label,time,who,how,predicted,confidence,content"
    again.close()


def test_a_line_is_synced_before_append_returns(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "a.csv")
    synced = []
    monkeypatch.setattr(_label_file.os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    journal.append([line(1, "a")])
    assert synced == [(tmp_path / "a.csv").stat().st_size]
    journal.close()


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_an_interrupted_line_is_left_out_and_no_other(tmp_path, cut):
    path = tmp_path / "a.csv"
    journal = Journal(path)
    journal.append([line(1, "a")])
    before = path.stat().st_size
    journal.append([line(2, "bbb", time="2026-01-01T00:00:00", predicted="cccccc", content="d" * 20)])
    journal.close()
    whole = path.read_bytes()
    assert before + cut < len(whole)
    path.write_bytes(whole[: before + cut])
    again = Journal(path)
    assert [one.label for one in again.lines] == ["a"]
    assert "was not finished" in again.notes[0]
    again.append([line(3, "c")])
    again.close()
    last = Journal(path)
    assert [one.number for one in last.lines] == [1, 3]
    assert last.notes == []
    last.close()


def test_zeros_at_the_end_of_a_file_after_a_power_cut_are_left_out(tmp_path):
    path = tmp_path / "a.csv"
    journal = Journal(path)
    journal.append([line(1, "a")])
    journal.close()
    with path.open("ab") as file:
        file.write(bytes(4096))
    again = Journal(path)
    assert [one.label for one in again.lines] == ["a"]
    again.close()


def test_a_line_end_between_quotes_ends_no_line():
    found = label_lines(b'row,label\n1,"a\nb"\n2,"c\nd')
    assert found == ([["row", "label"], ["1", "a\nb"]], 0, len(b'row,label\n1,"a\nb"\n'))


@pytest.mark.parametrize("damage", [b'"', b"\xff", b"\n", b","])
def test_a_damaged_byte_costs_its_own_line_only(tmp_path, damage):
    """Also where it looks like a quote, behind which all else would be one cell."""
    frame, _ = flowers(6)
    frame.to_csv(tmp_path / "f.csv", index=False)
    session = session_on(tmp_path / "f.labels.csv", frame)
    for row in range(5):
        session.label([row], 'say "a", b')
    session.close()
    path = tmp_path / "f.labels.csv"
    content = path.read_bytes()
    place = content.index(b"2,flower 1") + 2
    path.write_bytes(content[:place] + damage + content[place + 1 :])
    wanted = ['say "a", b', None, *['say "a", b'] * 3, None]
    table = read_table(tmp_path / "f.csv", target="kind", labels=path)
    assert table.y.tolist() == wanted
    again = session_on(path, frame)
    assert again.labels()[0].tolist() == wanted
    assert "cannot be read" in again.notes[0]
    again.label([5], "last")
    again.close()
    assert path.read_bytes().startswith(content[:place] + damage + content[place + 1 :])


def test_a_file_of_more_classes_than_a_page_has_is_refused(tmp_path, monkeypatch):
    session = session_on(tmp_path / "f.labels.csv")
    for row in range(4):
        session.label([row], f"class {row}")
    session.close()
    monkeypatch.setattr("labelfold.app.label._session.MAX_CLASSES", 3)
    with pytest.raises(ValueError, match=r"has labels of 4 classes, where 3 at most are expected"):
        session_on(tmp_path / "f.labels.csv")


def test_two_do_not_write_to_one_file(tmp_path):
    path = tmp_path / "a.csv"
    journal = Journal(path)
    for opened in (Journal, Journal.refuse_taken):
        with pytest.raises(FileProblem, match="is being written by another labelling page"):
            opened(path)
    journal.close()
    Journal.refuse_taken(path)
    Journal(path).close()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    journal = Journal(path)
    journal.append([line(1, "a")])
    before, write = path.read_bytes(), os.write

    def full(handle, content):
        if len(content) > 5:
            return write(handle, bytes(content[:5]))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_label_file.os, "write", full)
    with pytest.raises(FileProblem, match="No space left"):
        journal.append([line(2, "b")])
    assert path.read_bytes() == before
    monkeypatch.undo()
    journal.append([line(3, "c")])
    journal.close()
    assert [one.number for one in Journal(path).lines] == [1, 3]


@pytest.mark.parametrize("how", ["removed", "replaced", "longer"])
def test_a_file_that_somebody_else_changed_is_not_written_to(tmp_path, how):
    path = tmp_path / "a.csv"
    journal = Journal(path)
    if how == "longer":
        with path.open("a") as file:
            file.write("5,x,t,me,click,,,\n")
    else:
        path.unlink()
        if how == "replaced":
            path.write_text("row,label,time,who,how\n")
    with pytest.raises(FileProblem, match="by another program"):
        journal.append([line(1, "a")])
    journal.close()


@pytest.mark.parametrize(
    "content",
    [
        b"id,label\n1,a\n",
        b"a,b\n1,2",
        b"PAR1\x00\xff\n\x00",
        b"no line end",
        b"\x00" * 50,
        b'"',
        b"label,time,who,how\n1",
    ],
)
def test_another_file_is_refused_and_stays_byte_for_byte(tmp_path, content):
    path = tmp_path / "a.labels.csv"
    path.write_bytes(content)
    with pytest.raises(FileProblem, match="was not written by labelfold label"):
        Journal(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("cut", [0, 1, 10])
def test_a_header_that_was_not_finished_is_begun_anew(tmp_path, cut):
    path = tmp_path / "a.csv"
    Journal(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    Journal(path).close()
    assert path.read_bytes() == whole


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_a_pipe_in_the_place_of_the_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(FileProblem, match="a device or a pipe"):
        Journal(tmp_path / "a.csv")


def test_time_never_goes_back(tmp_path):
    journal = Journal(tmp_path / "a.csv")
    journal.append([line(1, "a", time="2999-01-01T00:00:00.000000+00:00")])
    assert journal.now() > "2999-01-01T00:00:00.000000"
    journal.close()


def test_the_row_number_has_a_name_that_no_column_has(tmp_path):
    journal = Journal(tmp_path / "a.csv", ["row"], ["row", "x"])
    assert journal.header[:3] == ["row_number", "row", "label"]
    journal.close()
    with pytest.raises(FileProblem, match="the name of a column of the file"):
        Journal(tmp_path / "b.csv", ["time"])


def test_the_newest_line_of_a_row_holds_wherever_the_file_is_read(tmp_path):
    """Through `--labels`, by id and by row number; an empty label takes back also what the table had."""
    frame, _ = flowers(6)
    frame["kind"] = ["round", None, None, "flat", None, None]
    frame["time"] = [
        3.5,
        1.0,
        2.0,
        8.0,
        1.5,
        0.0,
    ]  # a column of the table that is called as one of the journal is
    given = [None if value is None else str(value) for value in frame["kind"]]
    for named in (True, False):
        data = frame if named else frame.drop(columns="name")
        file = tmp_path / f"{named}.csv"
        data.to_csv(file, index=False)
        session = session_on(tmp_path / f"{named}.labels.csv", data.drop(columns="kind"), given)
        session.label([1, 2], "long")
        session.label([2], "flat")
        session.label([0], None)
        session.label([4], "odd")
        session.undo()
        session.skip(3)
        session.skip(5)
        session.close()
        table = read_table(file, target="kind", labels=tmp_path / f"{named}.labels.csv")
        assert table.y.tolist() == [None, "long", "flat", "flat", None, None]
        assert "time" in table.raw.column_names
        assert table.y.tolist() == session.labels()[0].tolist()


def test_a_half_written_journal_is_read_by_compare_too(tmp_path):
    frame, _ = flowers(6)
    frame.to_csv(tmp_path / "f.csv", index=False)
    session = session_on(tmp_path / "f.labels.csv", frame)
    session.label([0], "round")
    session.label([1], "long")
    session.close()
    path = tmp_path / "f.labels.csv"
    path.write_bytes(path.read_bytes()[:-30])
    table = read_table(tmp_path / "f.csv", target="kind", labels=path)
    assert table.y.tolist() == ["round", *[None] * 5]


def test_a_duplicate_of_a_line_end_in_an_id(tmp_path):
    frame = pd.DataFrame({"name": ["a\nb", "c"], "x": np.arange(2.0), "y": [1.0, 0.0]})
    session = session_on(tmp_path / "f.labels.csv", frame)
    session.label([0], "round")
    session.close()
    again = session_on(tmp_path / "f.labels.csv", frame)
    assert again.labels()[0].tolist() == ["round", None]
    again.close()
