"""scikit-learn's meta-estimators and tools, with every estimator for which they make sense.

`python tests/test_meta_estimators.py` prints what raises, and why.
"""

import io
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn import (
    calibration,
    ensemble,
    feature_selection,
    inspection,
    model_selection,
    multiclass,
    multioutput,
    preprocessing,
)
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils import get_tags

import labelfold
from labelfold.model_selection import SemiSupervisedKFold

N, D = 45, 4
_rng = np.random.default_rng(0)
CLASSES = np.arange(N) % 3  # three classes
X = _rng.random((N, D)) + np.eye(3, D)[CLASSES]
NUMBERS = X[:, 0] - X[:, 1] + 0.1 * _rng.random(N)
WEIGHTS = _rng.integers(1, 3, N).astype(float)
GROUPS = np.arange(N) // 5
KNOWN = np.where(np.arange(N) % 4 == 0, CLASSES, -1)  # a quarter is labelled

# Fewer iterations than by default.
FASTER = {
    "DRSVM": {"n_components": 2, "max_iter": 5},
    "SSNMF": {"n_components": 2, "max_iter": 5},
    "CNMF": {"n_components": 2, "max_iter": 5},
    "KLNMF": {"n_components": 2, "max_iter": 5},
    "NMFAlpha": {"n_components": 2, "max_iter": 5},
    "LSDR": {"n_components": 2, "max_iter": 5},
    "NSDR": {"n_components": 2, "max_iter": 5},
    "TSVM": {"n_stages": 2},
    "PCALS": {"n_components": 2},
    "KernelPCALS": {"n_components": 2, "n_landmarks": 5},
    "LabelFold": {"n_anchors": 5, "views": ["linear"], "forms": ["as they are"]},
}


def estimators():
    """Yield names and estimators of every kind: as they are, and as regressors where they predict numbers."""
    for name in labelfold._ESTIMATORS:
        if name == "Recipe":
            continue
        kind = getattr(labelfold, name)
        options = FASTER.get(name, {})
        yield name, kind(**options)
        if "regression" in kind._allowed and "task" in kind._get_param_names():
            yield f"{name}, numbers", kind(**options, task="regression")


def target_of(estimator):
    """Return a target that the estimator takes."""
    if is_regressor(estimator):
        return NUMBERS
    tags = get_tags(estimator)
    two = tags.classifier_tags is not None and not tags.classifier_tags.multi_class
    return CLASSES % 2 if two else CLASSES


def _fit(model, estimator, y=None, rows=X, **parameters):
    y = target_of(estimator) if y is None else y
    return model.fit(rows, y, **parameters)


def _predicts(estimator):
    return hasattr(estimator, "predict")


def _transforms(estimator):
    return hasattr(estimator, "transform")


def _any(estimator):
    return True


def _reduces(estimator):
    return hasattr(estimator, "transform") and is_classifier(estimator)


# For each combination: for which estimators, and what is done.
COMBINATIONS = {}


def combination(where):
    def add(function):
        COMBINATIONS[function.__name__] = (where, function)
        return function

    return add


def _ends(estimator, *before):
    """Return a pipeline that ends with the estimator, or for a transformer that predicts nothing with another."""
    after = [] if _predicts(estimator) else [LogisticRegression()]
    return make_pipeline(*before, estimator, *after)


@combination(_any)
def pipeline_alone(e):
    model = _fit(Pipeline([("model", e)]), e)
    (model.predict if _predicts(e) else model.transform)(X)


@combination(_any)
def pipeline_min_max_scaler(e):
    _fit(_ends(e, preprocessing.MinMaxScaler()), e).predict(X)


@combination(_any)
def pipeline_max_abs_scaler_of_sparse_rows(e):
    _fit(_ends(e, preprocessing.MaxAbsScaler()), e, rows=sparse.csr_matrix(X)).predict(sparse.csr_array(X))


@combination(_any)
def pipeline_knn_imputer(e):
    holes = np.where(_rng.random(X.shape) < 0.1, np.nan, X)
    _fit(_ends(e, KNNImputer()), e, rows=holes).predict(holes)


@combination(_any)
def pipeline_simple_imputer_and_indicator(e):
    holes = np.where(_rng.random(X.shape) < 0.1, np.nan, X)
    _fit(_ends(e, SimpleImputer(add_indicator=True)), e, rows=holes).predict(holes)


@combination(_any)
def pipeline_iterative_imputer(e):
    holes = np.where(_rng.random(X.shape) < 0.1, np.nan, X)
    _fit(_ends(e, IterativeImputer(max_iter=2, min_value=0)), e, rows=holes).predict(holes)


@combination(_any)
def pipeline_quantile_transformer(e):
    _fit(_ends(e, preprocessing.QuantileTransformer(n_quantiles=10)), e).predict(X)


@combination(_any)
def pipeline_target_encoder(e):
    table = pd.DataFrame({"kind": np.array(["a", "b", "c"])[CLASSES], "x": X[:, 0], "z": X[:, 1]})
    encoder = make_column_transformer((preprocessing.TargetEncoder(cv=2), ["kind"]), remainder="passthrough")
    model = _ends(e, encoder, preprocessing.MinMaxScaler(clip=True))
    _fit(model, e, rows=table).predict(table)


@combination(_any)
def pipeline_one_hot_encoder(e):
    table = pd.DataFrame({"kind": np.array(["a", "b", "c"])[CLASSES], "x": X[:, 0], "z": X[:, 1]})
    encoder = make_column_transformer((preprocessing.OneHotEncoder(), ["kind"]), remainder="passthrough")
    _fit(_ends(e, encoder), e, rows=table).predict(table)


@combination(_any)
def pipeline_select_k_best(e):
    best = feature_selection.SelectKBest(feature_selection.f_regression, k=3)
    _fit(_ends(e, best), e).predict(X)


@combination(_any)
def pipeline_tfidf(e):
    texts = np.array([" ".join(f"word{j}" for j in np.argsort(row)[-3:]) for row in X])
    _fit(_ends(e, TfidfVectorizer()), e, rows=texts).predict(texts)


@combination(_any)
def pipeline_recipe(e):
    table = pd.DataFrame({"kind": np.array(["a", "b", "c"])[CLASSES], "x": X[:, 0], "z": X[:, 1]})
    model = _ends(e, labelfold.Recipe(), preprocessing.MinMaxScaler(clip=True))
    _fit(model, e, rows=table).predict(table)


@combination(_any)
def pipeline_with_memory(e):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        steps = [("scale", preprocessing.MaxAbsScaler()), ("model", e)]
        _fit(Pipeline(steps, memory=folder), e)


@combination(_any)
def set_output_pandas(e):
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(D)])
    if _transforms(e):
        out = _fit(e.set_output(transform="pandas"), e, rows=table).transform(table)
        assert isinstance(out, pd.DataFrame)
        assert list(out.columns) == list(e.get_feature_names_out())
    else:
        _fit(e, e, rows=table).predict(table)


@combination(_transforms)
def set_output_polars(e):
    polars = pytest.importorskip("polars")
    table = polars.DataFrame(X, schema=[f"x{j}" for j in range(D)])
    out = _fit(e.set_output(transform="polars"), e, rows=table).transform(table)
    assert isinstance(out, polars.DataFrame)


@combination(_transforms)
def set_output_in_a_pipeline(e):
    model = make_pipeline(preprocessing.MinMaxScaler(), e).set_output(transform="pandas")
    assert isinstance(_fit(model, e, rows=pd.DataFrame(X)).transform(pd.DataFrame(X)), pd.DataFrame)


@combination(_transforms)
def transform_then_classifier(e):
    _fit(make_pipeline(e, KNeighborsClassifier(3)), e, y=CLASSES % 2 if is_regressor(e) else None).predict(X)


@combination(_transforms)
def feature_union(e):
    model = FeatureUnion([("pca", PCA(2)), ("own", e)])
    assert len(_fit(model, e).transform(X)) == N
    model.get_feature_names_out()


@combination(_transforms)
def column_transformer(e):
    model = ColumnTransformer([("own", e, [0, 1, 2])], remainder="passthrough")
    assert len(_fit(model, e).transform(X)) == N
    model.get_feature_names_out()


@combination(_transforms)
def column_transformer_of_named_columns(e):
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(D)])
    model = ColumnTransformer([("own", e, ["x0", "x1", "x2"])], verbose_feature_names_out=False)
    _fit(model.set_output(transform="pandas"), e, rows=table).transform(table)


@combination(_any)
def clone_and_parameters(e):
    copy = clone(e)
    assert copy.get_params().keys() == e.get_params().keys()
    copy.set_params(**e.get_params())
    _fit(copy, e)
    assert not hasattr(clone(copy), "n_features_in_")


def _same(a, b, e):
    done = "predict" if _predicts(e) else "transform"
    np.testing.assert_array_equal(getattr(a, done)(X), getattr(b, done)(X))


@combination(_any)
def pickled(e):
    _fit(e, e)
    _same(e, pickle.loads(pickle.dumps(e)), e)


@combination(_any)
def joblib_dumped(e):
    _fit(e, e)
    file = io.BytesIO()
    joblib.dump(e, file)
    file.seek(0)
    _same(e, joblib.load(file), e)


@combination(_any)
def joblib_threads(e):
    fit = joblib.delayed(lambda: _fit(clone(e), e))
    a, b = joblib.Parallel(2, prefer="threads")([fit(), fit()])
    _same(a, b, e)


@combination(_any)
def frozen(e):
    _fit(e, e)
    _same(_fit(FrozenEstimator(e), e), e, e)


@combination(_any)
def html_representation(e):
    assert e._repr_html_()
    assert _fit(e, e)._repr_html_()


def _grid(e):
    """Return two settings of a parameter."""
    if "n_components" in e.get_params() and e.get_params()["n_components"] != "cv":
        return {"n_components": [1, 2]}
    return {"unlabeled": [-1, None]}


@combination(_predicts)
def grid_search(e):
    search = model_selection.GridSearchCV(e, _grid(e), cv=2, error_score="raise")
    _fit(search, e).predict(X)


@combination(_any)
def grid_search_of_a_pipeline(e):
    model = Pipeline([("scale", preprocessing.MaxAbsScaler()), ("own", e)])
    if not _predicts(e):
        model.steps.append(("end", LogisticRegression()))
    grid = {f"own__{name}": values for name, values in _grid(e).items()}
    _fit(model_selection.GridSearchCV(model, grid, cv=2, error_score="raise"), e).predict(X)


@combination(_predicts)
def randomized_search(e):
    search = model_selection.RandomizedSearchCV(
        e, _grid(e), n_iter=2, cv=2, random_state=0, error_score="raise"
    )
    _fit(search, e)


@combination(_predicts)
def halving_grid_search(e):
    search = model_selection.HalvingGridSearchCV(e, _grid(e), cv=2, error_score="raise", random_state=0)
    _fit(search, e)


@combination(_predicts)
def halving_random_search(e):
    search = model_selection.HalvingRandomSearchCV(
        e, _grid(e), n_candidates=2, min_resources=20, cv=2, error_score="raise", random_state=0
    )
    _fit(search, e)


@combination(_predicts)
def cross_validate(e):
    found = model_selection.cross_validate(e, X, target_of(e), cv=2, error_score="raise")
    assert np.isfinite(found["test_score"]).all()


@combination(_predicts)
def cross_validate_on_partly_labelled_rows(e):
    y = np.where(KNOWN == -1, np.nan, NUMBERS) if is_regressor(e) else np.where(KNOWN < 0, -1, target_of(e))
    folds = SemiSupervisedKFold(2)
    found = model_selection.cross_validate(e, X, y, cv=folds, error_score="raise")
    assert np.isfinite(found["test_score"]).all()


@combination(_predicts)
def cross_validate_by_groups(e):
    folds = model_selection.GroupKFold(2)
    model_selection.cross_validate(e, X, target_of(e), groups=GROUPS, cv=folds, error_score="raise")


@combination(_predicts)
def cross_val_predict(e):
    assert len(model_selection.cross_val_predict(e, X, target_of(e), cv=2)) == N


@combination(is_classifier)
def cross_val_predict_probabilities(e):
    made = model_selection.cross_val_predict(e, X, target_of(e), cv=2, method="predict_proba")
    np.testing.assert_allclose(made.sum(axis=1), 1)


@combination(_predicts)
def permutation_test_score(e):
    model_selection.permutation_test_score(e, X, target_of(e), cv=2, n_permutations=1)


@combination(_predicts)
def learning_curve(e):
    model_selection.learning_curve(
        e, X, target_of(e), cv=2, train_sizes=[0.6, 1.0], shuffle=True, random_state=0, error_score="raise"
    )


@combination(_predicts)
def validation_curve(e):
    (name, values), *_ = _grid(e).items()
    model_selection.validation_curve(
        e, X, target_of(e), param_name=name, param_range=values, cv=2, error_score="raise"
    )


@combination(_predicts)
def permutation_importance(e):
    inspection.permutation_importance(_fit(e, e), X, target_of(e), n_repeats=2)


@combination(_predicts)
def partial_dependence(e):
    inspection.partial_dependence(_fit(e, e), X, [0], grid_resolution=3)


@combination(is_classifier)
def bagging_classifier(e):
    _fit(ensemble.BaggingClassifier(e, 2, random_state=0), e).predict_proba(X)


@combination(is_regressor)
def bagging_regressor(e):
    _fit(ensemble.BaggingRegressor(e, 2, random_state=0), e).predict(X)


@combination(lambda e: is_classifier(e) and _weighted(e))  # which it needs, and says so
def ada_boost_classifier(e):
    _fit(ensemble.AdaBoostClassifier(e, n_estimators=2), e).predict_proba(X)


@combination(is_regressor)
def ada_boost_regressor(e):
    _fit(ensemble.AdaBoostRegressor(e, n_estimators=2), e).predict(X)


@combination(is_classifier)
def voting_classifier_soft(e):
    both = [("own", e), ("other", LogisticRegression())]
    _fit(ensemble.VotingClassifier(both, voting="soft"), e).predict_proba(X)


@combination(is_classifier)
def voting_classifier_hard(e):
    both = [("own", e), ("other", LogisticRegression())]
    _fit(ensemble.VotingClassifier(both), e).predict(X)


@combination(is_regressor)
def voting_regressor(e):
    _fit(ensemble.VotingRegressor([("own", e), ("other", Ridge())]), e).predict(X)


@combination(is_classifier)
def stacking_classifier(e):
    both = [("own", e), ("other", LogisticRegression())]
    _fit(ensemble.StackingClassifier(both, cv=2), e).predict(X)


@combination(is_classifier)
def stacking_classifier_final(e):
    both = [("one", KNeighborsClassifier()), ("other", LogisticRegression())]
    _fit(ensemble.StackingClassifier(both, final_estimator=e, cv=2), e).predict(X)


@combination(is_regressor)
def stacking_regressor(e):
    _fit(ensemble.StackingRegressor([("own", e), ("other", Ridge())], cv=2), e).predict(X)


@combination(is_classifier)
def calibrated_classifier_sigmoid(e):
    _fit(calibration.CalibratedClassifierCV(e, cv=2), e).predict_proba(X)


@combination(is_classifier)
def calibrated_classifier_isotonic(e):
    model = calibration.CalibratedClassifierCV(e, cv=2, method="isotonic", ensemble=False)
    _fit(model, e).predict_proba(X)


@combination(is_classifier)
def calibrated_classifier_temperature(e):
    _fit(calibration.CalibratedClassifierCV(e, cv=2, method="temperature"), e).predict_proba(X)


@combination(is_classifier)
def calibrated_frozen_classifier(e):
    _fit(e, e)
    _fit(calibration.CalibratedClassifierCV(FrozenEstimator(e)), e).predict_proba(X)


@combination(is_classifier)
def one_vs_rest(e):
    model = _fit(multiclass.OneVsRestClassifier(e), e, y=CLASSES)
    assert model.predict_proba(X).shape == (N, 3)
    model.decision_function(X)


@combination(is_classifier)
def one_vs_rest_of_several_labels(e):
    Y = np.stack([CLASSES == 0, X[:, 1] > 0.6], axis=1).astype(int)
    assert multiclass.OneVsRestClassifier(e).fit(X, Y).predict(X).shape == Y.shape


@combination(is_classifier)
def one_vs_one(e):
    _fit(multiclass.OneVsOneClassifier(e), e, y=CLASSES).predict(X)


@combination(is_classifier)
def output_code(e):
    _fit(multiclass.OutputCodeClassifier(e, code_size=2, random_state=0), e, y=CLASSES).predict(X)


@combination(is_classifier)
def multi_output_classifier(e):
    Y = np.stack([CLASSES == 0, X[:, 1] > 0.6], axis=1).astype(int)
    multioutput.MultiOutputClassifier(e).fit(X, Y).predict_proba(X)


@combination(is_regressor)
def multi_output_regressor(e):
    multioutput.MultiOutputRegressor(e).fit(X, np.stack([NUMBERS, X[:, 2] + 0.5], axis=1)).predict(X)


@combination(is_classifier)
def classifier_chain(e):
    Y = np.stack([CLASSES == 0, X[:, 1] > 0.6], axis=1).astype(int)
    multioutput.ClassifierChain(e).fit(X, Y).predict_proba(X)


@combination(is_classifier)
def classifier_chain_of_scores(e):
    Y = np.stack([CLASSES == 0, X[:, 1] > 0.6], axis=1).astype(int)
    multioutput.ClassifierChain(e, chain_method="predict_proba", cv=2).fit(X, Y).predict(X)


@combination(is_regressor)
def regressor_chain(e):
    multioutput.RegressorChain(e).fit(X, np.stack([NUMBERS, X[:, 2] + 0.5], axis=1)).predict(X)


@combination(is_classifier)
def self_training(e):
    _fit(SelfTrainingClassifier(e, max_iter=2), e, y=np.where(KNOWN < 0, -1, target_of(e))).predict(X)


@combination(is_regressor)
def transformed_target(e):
    model = TransformedTargetRegressor(e, func=np.exp, inverse_func=np.log, check_inverse=False)
    _fit(TransformedTargetRegressor(e, transformer=preprocessing.StandardScaler()), e).predict(X)
    _fit(model, e)


def _weighs_columns(e):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _predicts(e) and np.shape(getattr(_fit(clone(e), e), "coef_", None))[-1:] == (D,)


@combination(_weighs_columns)
def recursive_elimination(e):
    _fit(feature_selection.RFE(e, n_features_to_select=2), e).predict(X)


@combination(_weighs_columns)
def recursive_elimination_cv(e):
    _fit(feature_selection.RFECV(e, min_features_to_select=2, cv=2), e).predict(X)


@combination(_weighs_columns)
def select_from_model(e):
    assert _fit(feature_selection.SelectFromModel(e, max_features=2), e).transform(X).shape[0] == N


@combination(_predicts)
def sequential_selection(e):
    _fit(feature_selection.SequentialFeatureSelector(e, n_features_to_select=2, cv=2), e).transform(X)


def _two_classes(e):
    return is_classifier(e)


@combination(_two_classes)
def fixed_threshold(e):
    _fit(model_selection.FixedThresholdClassifier(e, threshold=0.4), e, y=CLASSES % 2).predict(X)


@combination(_two_classes)
def tuned_threshold(e):
    _fit(model_selection.TunedThresholdClassifierCV(e, cv=2, thresholds=5), e, y=CLASSES % 2).predict(X)


@combination(_two_classes)
def scorers_of_two_classes(e):
    _fit(e, e, y=CLASSES % 2)
    for name in ("roc_auc", "neg_log_loss", "neg_brier_score", "average_precision", "balanced_accuracy"):
        sklearn.metrics.get_scorer(name)(e, X, CLASSES % 2)


@combination(is_classifier)
def text_labels(e):
    names = np.array(["apple", "bread", "corn"])
    y = names[target_of(e)]
    assert set(_fit(e, e, y=y).predict(X)) <= set(y)
    _fit(clone(e), e, y=list(y))
    _fit(clone(e), e, y=pd.Series(y, dtype="category"))


@combination(_any)
def data_frame(e):
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(D)])
    _fit(e, e, y=pd.Series(target_of(e)), rows=table)
    assert list(e.feature_names_in_) == list(table.columns)
    (e.predict if _predicts(e) else e.transform)(table)


@combination(_any)
def fit_transform_or_predict_of_a_pipeline(e):
    model = make_pipeline(preprocessing.MaxAbsScaler(), e)
    if _transforms(e):
        assert len(model.fit_transform(X, target_of(e))) == N
    else:
        model.fit(X, target_of(e)).predict(X)


def _takes(e, name):
    from sklearn.utils.validation import has_fit_parameter

    return has_fit_parameter(e, name)


def _weighted(e):
    return _takes(e, "sample_weight")


def _weighted_and_predicts(e):
    return _weighted(e) and _predicts(e)


@combination(_weighted)
def weights_through_a_pipeline(e):
    model = Pipeline([("scale", preprocessing.MaxAbsScaler()), ("own", e)])
    _fit(model, e, own__sample_weight=WEIGHTS)


@combination(_weighted_and_predicts)
def weights_through_a_search(e):
    _fit(model_selection.GridSearchCV(e, _grid(e), cv=2, error_score="raise"), e, sample_weight=WEIGHTS)


@combination(_weighted_and_predicts)
def routed_weights_through_a_search_of_a_pipeline(e):
    with sklearn.config_context(enable_metadata_routing=True):
        own = clone(e).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        model = make_pipeline(preprocessing.MaxAbsScaler(), own)
        grid = {f"{model.steps[-1][0]}__{name}": values for name, values in _grid(e).items()}
        _fit(model_selection.GridSearchCV(model, grid, cv=2, error_score="raise"), e, sample_weight=WEIGHTS)


@combination(_weighted_and_predicts)
def routed_weights_through_cross_validation(e):
    with sklearn.config_context(enable_metadata_routing=True):
        own = clone(e).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        if _takes(e, "groups"):
            own.set_fit_request(groups=True)
        parameters = {"sample_weight": WEIGHTS, "groups": GROUPS}
        folds = model_selection.GroupKFold(2)
        model_selection.cross_validate(own, X, target_of(e), cv=folds, params=parameters, error_score="raise")


@combination(lambda e: _takes(e, "groups"))
def routed_groups(e):
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(preprocessing.MaxAbsScaler(), clone(e).set_fit_request(groups=True))
        _fit(model, e, groups=GROUPS)


@combination(lambda e: is_classifier(e) and "class_weight" in e.get_params())
def balanced_classes(e):
    grid = {"class_weight": [None, "balanced"]}
    _fit(model_selection.GridSearchCV(e, grid, cv=2, error_score="raise"), e)


@combination(lambda e: _weighted(e) and is_classifier(e))
def weighted_bagging(e):
    _fit(ensemble.BaggingClassifier(e, 2, random_state=0), e, sample_weight=WEIGHTS)


@combination(lambda e: _weighted(e) and is_classifier(e))
def weighted_calibration(e):
    _fit(calibration.CalibratedClassifierCV(e, cv=2), e, sample_weight=WEIGHTS)


@combination(_any)
def read_only_rows(e):
    rows = X.copy()
    rows.flags.writeable = False
    _fit(e, e, rows=rows)


@combination(_transforms)
def nearest_neighbours_after(e):
    forest = RandomForestClassifier(3, random_state=0)
    _fit(make_pipeline(e, forest), e, y=CLASSES if not is_regressor(e) else CLASSES % 2)


@combination(_transforms)
def cached_neighbours_after_of_sparse_rows(e):
    after = KNeighborsClassifier(3)
    model = make_pipeline(preprocessing.MaxAbsScaler(), e, after)
    model.fit(sparse.csr_array(X), CLASSES % 2).predict(sparse.csr_array(X))


@combination(_predicts)
def display_of_learning_curve(e):
    found = model_selection.cross_validate(
        e, X, target_of(e), cv=2, return_estimator=True, return_indices=True, error_score="raise"
    )
    assert len(found["estimator"]) == 2


# What cannot work, with the reason; by the names of combination and estimator, "" for any estimator.
REASONS: dict[tuple[str, str], str] = {}


def cases(only=None):
    """Yield the names of combination and estimator, what is done, and the estimator."""
    for label, estimator in estimators():
        if only not in (None, label):
            continue
        for name, (where, function) in COMBINATIONS.items():
            if where(estimator):
                yield name, label, function, clone(estimator)


def reason_of(name, label):
    """Return why a combination cannot work, or None."""
    return REASONS.get((name, label), REASONS.get((name, "")))


def raised(function, estimator):
    """Return what a combination raises, as text; "" if nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(estimator)
        except pytest.skip.Exception:
            return ""
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return ""


@pytest.mark.parametrize("label", [label for label, _ in estimators()])
def test_every_combination_works_or_has_a_reason(label):
    errors = {name: raised(function, estimator) for name, _, function, estimator in cases(label)}
    assert len(errors) > 30
    assert {name: error for name, error in errors.items() if error and not reason_of(name, label)} == {}
    assert [name for name, error in errors.items() if not error and reason_of(name, label)] == []


if __name__ == "__main__":
    done, failed = 0, 0
    for name, label, function, estimator in cases():
        error = raised(function, estimator)
        done, failed = done + 1, failed + bool(error)
        if error:
            print(f"{reason_of(name, label) or 'NO REASON'} | {name} | {label} | {error[:300]}", flush=True)
    print(f"{len(COMBINATIONS)} combinations, {done} with an estimator, of which {failed} raise")
