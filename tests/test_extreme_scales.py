"""Numbers near the ends of the range: a finite result or a sentence, and nothing from LAPACK on the terminal."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import labelfold
from labelfold import features
from labelfold.rows import as_rows

MAKERS = {
    "LDA": lambda: labelfold.LDA(),
    "LDA ridge": lambda: labelfold.LDA(ridge=1.0),
    "LDA cv": lambda: labelfold.LDA(ridge="cv"),
    "LDA direct": lambda: labelfold.LDA(solver="direct"),
    "CCA": lambda: labelfold.CCA(),
    "OPLS": lambda: labelfold.OPLS(),
    "HSL": lambda: labelfold.HSL(),
    "SSDR": lambda: labelfold.SSDR(2),
    "PCALS": lambda: labelfold.PCALS(2),
    "KernelPCALS": lambda: labelfold.KernelPCALS(2),
    "KernelPCALS linear": lambda: labelfold.KernelPCALS(2, kernel="linear"),
    "LabelFold": lambda: labelfold.LabelFold(),
    "LapRLS": lambda: labelfold.LapRLS(),
    "LapRLS rbf": lambda: labelfold.LapRLS(kernel="rbf"),
    "LapRLS poly": lambda: labelfold.LapRLS(kernel="poly"),
}


def outcome(model, X, y):
    """Return the sentence of a refusal, or what the model makes of the rows."""
    try:
        model.fit(X, y)
    except np.linalg.LinAlgError:
        raise
    except ValueError as error:
        return str(error), np.empty(0)
    return "", model.transform(X) if hasattr(model, "transform") else model.decision_function(X)


@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e300, 1e-300])
@pytest.mark.parametrize("name", MAKERS)
def test_a_result_or_a_sentence(name, scale, rng, capfd):
    X = rng.normal(size=(40, 5))
    y = (X[:, 0] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said, shown = outcome(MAKERS[name](), scale * X, y)
    assert np.isfinite(shown).all()
    assert not said or ("X" in said and any(way in said for way in ("scale", "multiply", "divide", "give")))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["LDA", "CCA", "OPLS", "HSL"])
@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e-300])
def test_the_scale_of_x_does_not_change_the_embedding(name, scale, rng):
    X = rng.normal(size=(40, 5))
    y = (X[:, 0] > 0).astype(int)
    plain, scaled = MAKERS[name]().fit(X, y), MAKERS[name]().fit(scale * X, y)
    np.testing.assert_allclose(scaled.transform(scale * X), plain.transform(X), atol=1e-10)


@pytest.mark.parametrize(
    ("model", "scale"),
    [
        (labelfold.KernelPCALS(kernel="poly", gamma=0.9, n_landmarks=5), 1e150),
        (labelfold.CCA(kernel="poly", coef0=1.0, degree=100.0, gamma=1.0), 1e3),
        (labelfold.KernelPCALS(reconstruction=1e300), 1.0),
        (labelfold.SSDR(must_link_weight=1e-300), 1e150),
        (labelfold.HSL(max_gram_bytes=0), 0.0),
        (labelfold.NSDR(offset_unit=1e300, kernel="rbf", max_iter=30), 1.0),
        (labelfold.NSDR(coef0=1e300, kernel="poly", max_iter=30), 1.0),
        (labelfold.LDA(max_gram_bytes=0), 1e100),
    ],
    ids=str,
)
def test_numbers_that_leave_their_range_on_the_way(model, scale, rng, capfd):
    """Neither NumPy's warnings nor its errors nor LAPACK's text reach the user."""
    X = rng.normal(size=(40, 5))
    y = (X[:, 0] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        _, shown = outcome(model, scale * X, y)
    assert np.isfinite(shown).all()
    assert capfd.readouterr() == ("", "")


def test_a_kernel_map_at_the_end_of_the_range(rng):
    X = np.clip(1e300 * rng.choice([0.0, 1.0, 1e8], size=(9, 3)), 0.0, 1.7e308)
    X[:, 0] = 1.7e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made, _ = features.kernel_map(
            as_rows(X),
            "laplacian",
            gamma=0.1,
            degree=None,
            coef0=None,
            n_landmarks=3,
            max_gram_bytes=1e9,
            random_state=0,
        )
        assert np.isfinite(made.transform(X)).all()


@pytest.mark.parametrize("form", ["unit variance", "unit rows"])
def test_forms_at_the_end_of_single_precision(form, rng):
    X = (rng.normal(size=(20, 3)) * 1e38).clip(-3.4e38, 3.4e38).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = features.FORMS[form]().fit(X).transform(X)
    np.testing.assert_allclose(made, features.FORMS[form]().fit(X / 1e38).transform(X / 1e38), rtol=1e-4)


def test_rows_that_leave_single_precision_when_they_are_projected(rng):
    X, y = rng.normal(size=(40, 5)), np.tile([0, 1], 20)
    model = labelfold.LDA(ridge=1e-3).fit(1e-20 * X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            ValueError, match="LDA makes numbers of these rows that leave the range of float32"
        ):
            model.transform((1e37 * X).astype(np.float32))


@pytest.mark.parametrize("hold", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("form", ["unit rows", "root counts"])
@pytest.mark.parametrize("scale", [1e-200, 1e-60, 1e200])
def test_unit_rows_of_any_scale(scale, form, hold, rng):
    X = hold(scale * rng.random(size=(9, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = features.FORMS[form]().fit(X).transform(X)
    made = made.toarray() if sparse.issparse(made) else made
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1.0)


@pytest.mark.parametrize("n", [3, 4, 6, 9])
def test_a_ridge_is_chosen_from_few_numbers(n, rng):
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = labelfold.CCA(ridge=[0.1, 1.0], task="regression").fit(X, y)
    assert model.ridge_ in (0.1, 1.0)


@pytest.mark.parametrize(
    "model",
    [
        labelfold.DRSVM(2, center=True),
        labelfold.LapRLS(),
        labelfold.LapRLS(normalized=True),
        labelfold.LDA(),
        labelfold.LSDR(2),
        labelfold.SSDR(2),
        labelfold.TSVM(),
        features.Principal(2),
    ],
    ids=str,
)
def test_single_precision_far_from_0_is_as_good_as_double(model, rng):
    y = np.tile([0, 1, 2, -1], 20)
    X = (rng.normal(size=(80, 4)) + 2 * rng.normal(size=(4, 4))[y] + 1e6).astype(np.float32)
    made = []
    for rows in (X, X.astype(np.float64)):
        fitted = clone(model).fit(rows, y)
        made.append((fitted.transform if hasattr(fitted, "transform") else fitted.decision_function)(rows))
    np.testing.assert_allclose(made[0], made[1], atol=3e-4 * np.abs(made[1]).max())
