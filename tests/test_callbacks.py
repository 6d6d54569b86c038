"""scikit-learn's callbacks: what they are told of a fit, what they can stop, and who passes them on."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import labelfold
from labelfold import LDA, SSNMF, LabelFold, NMFAlpha
from labelfold.base import Iterative

# What takes the place of an estimator with its defaults, so that it has several iterations.
SHORTER = {
    "LDA": {"solver": "direct"},
    "LSDR": {"n_components": 2},
    "LabelFold": {"forms": ["as they are", "unit variance"], "views": ["linear"]},
    "PCALS": {"n_components": 2},
    "KernelPCALS": {"n_components": 2, "n_landmarks": 10},
    "LapRLS": {"tol": 1e-12},
    "SSDR": {"max_gram_bytes": 0},
}
ITERATIVE = ["SSDR", "TSVM", "LapRLS", "PCALS", "KernelPCALS", "LabelFold"]
ITERATIVE += [name for name in labelfold._ESTIMATORS if issubclass(getattr(labelfold, name), Iterative)]


class Recorder:
    """Keeps what it is told, and stops the iterations of each fit after some."""

    max_propagation_depth = None

    def __init__(self, stop_after=None):
        self.told, self.stop_after, self.n = [], stop_after, 0

    def setup(self, estimator, context):
        self.told.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.told.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.told.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.told.append(("end", context.task_name))
        if context.task_name == "iteration":
            assert fitted_estimator is None
            assert X is not None
            self.n += 1
            return self.n == self.stop_after
        if context.task_name == "fit" and context.estimator_name in labelfold._ESTIMATORS:
            assert fitted_estimator.n_features_in_ == X.shape[1]
        return False


def made(name):
    kind = getattr(labelfold, name)
    return kind(**SHORTER.get(name, {"n_components": 2} if "n_components" in kind._get_param_names() else {}))


def data():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.random((60, 6)) + np.eye(3, 6)[y]
    return X, np.where(np.arange(60) % 3 < 2, y, -1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ITERATIVE)
def test_every_iteration_is_a_task(name):
    X, y = data()
    recorder = Recorder()
    model = made(name).set_callbacks(recorder).fit(X, y)
    told = recorder.told
    assert told[:3] == [("setup", "fit"), ("begin", "fit"), ("begin", "iterations")]
    assert told[-3:] == [("end", "iterations"), ("end", "fit"), ("teardown", "fit")]
    assert told[3:-3] == [("begin", "iteration"), ("end", "iteration")] * recorder.n
    if isinstance(model, Iterative):
        assert recorder.n in (model.n_iter_, model.n_iter_ + 1)  # the last state may have been rejected
    assert recorder.n >= (1 if name == "SSDR" else 2)  # SSDR finds its six columns at once
    same = made(name).fit(X, y)
    done = "predict" if hasattr(model, "predict") else "transform"
    np.testing.assert_array_equal(getattr(model, done)(X), getattr(same, done)(X))
    assert not {"_callback_fit_ctx", "_skl_callbacks_to_teardown"} & vars(model).keys()


@pytest.mark.parametrize("name", ITERATIVE)
def test_a_callback_stops_the_iterations(name):
    X, y = data()
    recorder = Recorder(stop_after=1)
    with warnings.catch_warnings():
        if name not in (
            "LapRLS",
            "SSDR",
        ):  # the solution of a solver that was stopped is short of its tolerance
            warnings.simplefilter("error", ConvergenceWarning)
        else:
            warnings.simplefilter("ignore", ConvergenceWarning)
        model = made(name).set_callbacks(recorder).fit(X, y)
    assert recorder.n == 1 or name == "LapRLS"  # which restarts, and stops again
    if isinstance(model, Iterative):
        assert model.n_iter_ == len(model.objective_) == 1
    assert len((model.predict if hasattr(model, "predict") else model.transform)(X)) == 60


@pytest.mark.filterwarnings("ignore:LDA leaves out:UserWarning")
def test_a_method_without_iterations_is_one_task():
    recorder = Recorder()
    LDA().set_callbacks(recorder).fit(*data())
    assert recorder.told == [("setup", "fit"), ("begin", "fit"), ("end", "fit"), ("teardown", "fit")]


def test_a_fit_inside_a_fit_is_not_told():
    recorder = Recorder()
    NMFAlpha(2, max_iter=3, tol=1e-9).set_callbacks(recorder).fit(*data())
    assert [what for what in recorder.told if what[0] in ("setup", "teardown")] == [
        ("setup", "fit"),
        ("teardown", "fit"),
    ]


def test_an_error_tears_down():
    recorder = Recorder()
    with pytest.raises(ValueError, match="y has 3 rows"):
        SSNMF(2).set_callbacks(recorder).fit(data()[0], [0, 1, 0])
    assert recorder.told == [("setup", "fit"), ("begin", "fit"), ("teardown", "fit")]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*rows that cross-validation holds out:UserWarning")
def test_pipelines_and_searches_pass_them_on():
    X, y = data()
    recorder = Recorder()
    model = make_pipeline(MinMaxScaler(clip=True), SSNMF(2, max_iter=3, tol=1e-9))
    search = GridSearchCV(model, {"ssnmf__n_components": [1, 2]}, cv=2, error_score="raise")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The estimator MinMaxScaler does not support callbacks")
        search.set_callbacks(recorder).fit(X, y)
    assert [what[1] for what in recorder.told if what[0] == "begin"].count("iteration") == 3 * (4 + 1)
    assert not hasattr(search.best_estimator_[-1], "_skl_callbacks")


def test_the_progress_bar_and_the_scoring_monitor(capsys):
    X, y = data()
    y = np.arange(60) % 3
    monitor = ScoringMonitor(scoring="accuracy")
    fold = LabelFold(forms=["as they are", "ranks"], views=["linear"])
    fold.set_callbacks(ProgressBar(), monitor).fit(X, y)
    assert "LabelFold - iterations" in capsys.readouterr().out
    (row,) = monitor.get_logs().data  # the model is complete after the last iteration only
    assert row["task_name"] == "fit"
    assert row["accuracy"] == fold.score(X, y)


def test_clones_and_copies_keep_them():
    recorder = Recorder()
    model = SSNMF(2, max_iter=2).set_callbacks(recorder)
    assert clone(model)._skl_callbacks == [recorder]
    assert len(pickle.loads(pickle.dumps(model))._skl_callbacks) == 1


def test_without_scikit_learns_callbacks_there_are_none():
    """They are experimental. (scikit-learn 1.9 itself cannot fit without them.)"""
    code = """
import sys
sys.modules["sklearn.callback"] = None  # whoever imports it fails
from labelfold.utils import CallbackSupportMixin
print(hasattr(CallbackSupportMixin, "set_callbacks"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "False\n", done.stderr
