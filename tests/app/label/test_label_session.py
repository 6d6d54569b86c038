"""A session: labels, undo, questions, restarts, and tables that changed meanwhile."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from small_session import CLASSES, flowers, made, session_on

from labelfold.app.io import FileProblem, read_table
from labelfold.app.io._errors import Refusal
from labelfold.app.io._label_file import Journal
from labelfold.app.label._session import Session
from labelfold.app.label._table import prepare_table


@pytest.fixture
def path(tmp_path):
    return tmp_path / "flowers.labels.csv"


def labels(session):
    return {i: str(label) for i, label in enumerate(session.labels()[0]) if label is not None}


def test_labels_undo_and_redo_a_lasso_at_once(path):
    session = session_on(path)
    session.label([1, 2, 3], "long")
    session.label([3], "flat")
    session.undo()
    assert labels(session) == {1: "long", 2: "long", 3: "long"}
    session.undo()
    assert labels(session) == {}
    assert session.state()["can_undo"] is False
    with pytest.raises(Refusal, match="nothing to undo"):
        session.undo()
    session.redo()
    assert labels(session) == {1: "long", 2: "long", 3: "long"}
    session.label([5], "round")
    with pytest.raises(Refusal, match="nothing to do again"):
        session.redo()
    session.label([1], None)
    assert labels(session) == {2: "long", 3: "long", 5: "round"}
    session.close()


def test_a_restart_goes_on_with_labels_history_and_answers(path):
    session = session_on(path)
    for _ in range(3):
        session.label([session.question.row], "round")
    session.label([50, 51], "long")
    session.undo()
    session.skip(session.question.row)
    before, marks = session.state(), session.marks
    session.close()
    again = session_on(path)
    after = again.state()
    assert labels(again) == labels(session)
    assert again.marks.answers() == marks.answers()
    assert len(marks.answers()) == 3
    assert again.marks.skipped == marks.skipped
    assert [(a.how, a.before, a.after) for a in again.marks.done] == [
        (a.how, a.before, a.after) for a in marks.done
    ]
    for name in ("labelled", "skipped", "classes", "can_undo", "can_redo", "accuracy", "curve"):
        assert after[name] == before[name]
    assert again.question is None or again.question.row not in marks.asked()
    again.undo()  # the skip
    again.undo()
    assert len(labels(again)) == 2
    again.close()


def test_no_row_is_asked_twice_and_the_random_ones_are_known(path):
    session = session_on(path)
    seen = []
    while session.question is not None:
        seen.append(session.question.row)
        session.skip(session.question.row) if len(seen) % 5 == 0 else session.label([seen[-1]], "round")
    assert sorted(seen) == list(range(60))
    hows = [line.how for line in session.journal.lines if line.how != "skip"]
    assert hows.count("random") >= len(hows) / 4 - 1
    session.close()


def test_undo_asks_the_question_again_and_keeps_what_was_predicted_first(path):
    session = session_on(path, start=True)
    truth = flowers()[1]
    for i in (0, 1, 2, 3, 4, 5):
        session.label([i], str(truth[i]))
    assert session.worker.idle(30)
    session.choose("random")
    asked = session.question
    assert asked.how == "random"
    first = session.state()["accuracy"]
    session.label([asked.row], "long" if truth[asked.row] != "long" else "flat")
    assert session.question.row != asked.row
    assert session.worker.idle(30)
    session.undo()
    assert session.question == asked
    session.label([asked.row], str(truth[asked.row]))
    answer = session.marks.answers()[-1]
    line = next(line for line in session.journal.lines if line.how == "random")
    assert (answer.row, answer.label, answer.predicted) == (asked.row, truth[asked.row], line.predicted)
    assert answer.n_labels == 6
    assert first is None
    assert session.state()["accuracy"]["n"] == 1
    session.close()


def test_a_lasso_and_a_click_are_no_answers(path):
    session = session_on(path, start=True)
    rows = [i for i in range(10) if i != session.question.row]
    session.label(rows[:2], "round")
    session.label([rows[3]], "long")
    session.label([rows[3]], "long")
    assert session.marks.answers() == []
    assert [line.how for line in session.journal.lines] == ["lasso", "lasso", "click", "change"]
    session.close()


def test_labels_of_the_table_count_and_can_be_taken_back(path):
    given = ["long", None, "round", *[None] * 57]
    session = session_on(path, given=given)
    assert session.state()["classes"] == [{"name": "long", "count": 1}, {"name": "round", "count": 1}]
    assert session.state()["accuracy"] is None
    session.label([0], None)
    session.label([2], "flat")
    session.close()
    again = session_on(path, given=given)
    assert labels(again) == {2: "flat"}
    again.close()


def test_the_loop_learns(path):
    session = session_on(path, start=True)
    truth = flowers()[1]
    versions = session.points_version, session.predictions_version
    assert (np.frombuffer(session.predictions_of_all()[:120], "<i2") == -1).all()
    for _ in range(12):
        row = session.question.row
        session.label([row], str(truth[row]))
        assert session.worker.idle(30)
    state = session.state()
    assert session.points_version > versions[0]
    assert session.predictions_version > versions[1]
    points = np.frombuffer(session.points(), "<f4").reshape(60, 2)
    assert np.isfinite(points).all()
    assert np.abs(points).max() < 2
    content = session.predictions_of_all()
    assert len(content) == 5 * 60
    predicted = np.array(state["classes"])[np.frombuffer(content[:120], "<i2")]
    assert np.mean([p["name"] == t for p, t in zip(predicted, truth, strict=True)]) > 0.9
    assert (np.frombuffer(content[120:240], "<i2") >= 0).sum() == 12
    assert state["accuracy"]["n"] >= 2
    assert state["busy"] is False
    assert state["notes"] == []
    session.close()


def test_a_doubtful_label_is_shown_until_it_is_changed_or_given_once_more(path):
    frame, truth = flowers()
    given = [str(t) for t in truth]
    given[0], given[1] = "flat", "round"  # round and long in truth
    session = session_on(path, frame, given, start=True)
    assert {one["row"] for one in session.state()["doubtful"]} == {0, 1}
    doubt = next(one for one in session.state()["doubtful"] if one["row"] == 0)
    assert (doubt["label"], doubt["predicted"], doubt["id"]) == ("flat", "round", "flower 0")
    session.label([0], "round")
    session.label([1], "round")
    assert session.state()["doubtful"] == []
    session.close()
    again = session_on(path, frame, given, start=True)
    assert again.state()["doubtful"] == []
    again.close()


def test_labels_that_come_during_a_fit_are_fitted_next(path):
    session = session_on(path, start=True)
    truth = flowers()[1]
    for i in range(30):
        session.label([i], str(truth[i]))
    assert session.worker.idle(30)
    assert session.latest.labels == 30
    assert session.points_version < 30
    session.close()


def test_many_hands_at_once_lose_no_label(path):
    session = session_on(path)
    with ThreadPoolExecutor(8) as hands:
        list(hands.map(lambda i: session.label([i], f"by {i % 4}"), range(60)))
    assert len(labels(session)) == 60
    session.close()
    again = session_on(path)
    assert labels(again) == {i: f"by {i % 4}" for i in range(60)}
    again.close()


def test_a_bad_name_or_row_writes_nothing(path):
    session = session_on(path)
    before = path.read_bytes()
    for name in ("", "  ", "a\0b", "a\nb", "\x1b[31m", "x" * 201, "\ud800", "NA", "-1", "nan", "\u202eabc"):
        with pytest.raises(Refusal):
            session.label([0], name)
        with pytest.raises(Refusal):
            session.add_class(name)
    for rows in ([-1], [60], [], [0, 99]):
        with pytest.raises(Refusal):
            session.label(rows, "round")
    with pytest.raises(Refusal, match=r"did you mean 'mixed'"):
        session.choose("mixd")
    assert path.read_bytes() == before
    session.label([0], " <b>&é</b> ")
    assert labels(session) == {0: "<b>&é</b>"}
    session.close()


def test_names_of_one_spelling_are_one_class(path):
    session = session_on(path)
    session.label([0], "caf\u00e9")
    session.label([1], "cafe\u0301")
    assert session.state()["classes"] == [{"name": "café", "count": 2}]
    session.close()


def test_more_classes_than_the_page_takes_are_refused(path):
    frame = pd.DataFrame({"x": np.arange(1100.0) ** 0.5})
    with pytest.raises(Refusal, match="different labels"):
        made(frame, [f"c{i}" for i in range(1100)])
    session = session_on(path, frame, [f"c{i}" for i in range(1000)] + [None] * 100)
    with pytest.raises(Refusal, match="no room"):
        session.label([1050], "one more")
    session.close()


def changed(path, frame, given=None):
    """Label three rows of a table, then open the journal with another."""
    old = flowers()[0]
    session = session_on(path, old if "name" in frame else old.drop(columns="name"))
    for row, name in zip((3, 10, 20), CLASSES, strict=True):
        session.label([row], name)
    session.close()
    return session_on(path, frame, given)


def test_a_changed_table_is_mapped_by_its_ids(path):
    frame, _ = flowers()
    again = changed(path, frame.drop(index=10).iloc[::-1].reset_index(drop=True).assign(height=0.5))
    assert labels(again) == {39: "flat", 55: "round"}
    assert "has changed" in again.notes[0]
    assert "by their ids" in again.notes[0]
    assert "labels of 1 row" in again.notes[1]
    assert "'flower 10'" in again.notes[1] or "flower 10" in again.notes[1]
    lines = path.read_text()
    assert "flower 10" in lines
    again.close()


def test_rows_without_ids_are_found_by_what_they_hold(path):
    frame = flowers()[0].drop(columns="name")
    again = changed(path, frame.iloc[5:].reset_index(drop=True))
    assert labels(again) == {5: "long", 15: "flat"}
    assert any("by their number or by what they hold" in note for note in again.notes)
    assert any("labels of 1 row" in note for note in again.notes)
    again.close()


def test_a_row_that_was_edited_keeps_its_label_where_the_others_stayed(path):
    frame = flowers()[0].drop(columns="name")
    frame.loc[10, "width"] = 77.0
    again = changed(path, frame)
    assert labels(again) == {3: "round", 10: "long", 20: "flat"}
    again.close()


def test_a_table_that_holds_none_of_the_rows_is_refused(path):
    with pytest.raises(FileProblem, match="holds none of the rows"):
        changed(path, flowers(seed=5)[0].drop(columns="name"))


def test_rows_that_are_added_change_nothing(path):
    frame = flowers()[0].drop(columns="name")
    again = changed(path, pd.concat([frame, flowers(20, seed=3)[0].drop(columns="name")], ignore_index=True))
    assert labels(again) == {3: "round", 10: "long", 20: "flat"}
    assert "has changed" in again.notes[0]
    again.close()


def test_other_options_are_no_change_of_the_table(tmp_path):
    """Without ids, a column that is left out the second time, or is the target, does not make rows others."""
    frame = flowers()[0].drop(columns="name")
    frame["kind"] = None
    frame.to_csv(tmp_path / "f.csv", index=False)
    for how in (
        {"target": "kind"},
        {"target": "kind", "drop": ["colour"]},
        {"target": "kind", "id_columns": ["width"]},
    ):
        table = read_table(tmp_path / "f.csv", begin=True, **how)
        rows = prepare_table(table, [None] * 60, name="f.csv", target="kind")
        session = Session(rows, Journal(tmp_path / "f.labels.csv"), who="ada")
        assert not any("has changed" in note for note in session.notes)
        session.label([len(labels(session))], "round")
        session.close()
    assert labels(session) == {0: "round", 1: "round", 2: "round"}


def test_ids_that_are_there_twice_are_not_used(path):
    frame, _ = flowers()
    frame.loc[1, "name"] = "flower 0"
    session = session_on(path, frame)
    assert "labels are kept by the number of the row" in session.notes[0]
    session.label([1], "long")
    session.close()
    again = session_on(path, frame)
    assert labels(again) == {1: "long"}
    again.close()


def test_one_row_and_rows_that_are_alike_are_no_reason_to_fail(path, tmp_path):
    session = session_on(path, pd.DataFrame({"x": np.ones(30), "y": np.arange(30) % 2.0}), start=True)
    session.label([0], "a")
    session.label([1], "b")
    assert session.worker.idle(30)
    assert len(session.points()) == 8 * 30
    session.close()
    alike = pd.DataFrame(np.ones((5, 2)), columns=["x", "y"])
    with pytest.raises(ValueError, match="No column is left"):
        session_on(tmp_path / "b.csv", alike)
    one = session_on(tmp_path / "c.csv", pd.DataFrame({"x": [1.0]}), start=True)
    one.label([0], "a")
    assert one.state()["question"] is None
    one.close()
