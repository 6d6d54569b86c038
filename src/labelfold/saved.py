"""The names of labelfold's classes in saved models, independent of the modules that define the classes.

A model file names an estimator as ``labelfold.LDA`` and every other class of labelfold as ``labelfold.saved.Tuned``.
These names never change. ``_PLACES`` maps each to the current module and the current name of the class. A model file
may contain no other classes of labelfold than these and the estimators.

Examples
--------
>>> from labelfold import saved
>>> saved.UnitSpread().fit_transform([[0.0], [2000.0]]).tolist()
[[0.0], [2.0]]
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from labelfold import _ESTIMATORS

_PLACES = {
    "AnchorSpace": "labelfold.features._anchors:AnchorSpace",
    "Anchors": "labelfold.features._anchors:Anchors",
    "AsSparse": "labelfold.tables._steps:AsSparse",
    "AsTheyAre": "labelfold.features._forms:AsTheyAre",
    "BlendedFeatures": "labelfold.semi_supervised._blend:BlendedFeatures",
    "BlendedScores": "labelfold.semi_supervised._blend:BlendedScores",
    "CenteredNystroem": "labelfold.features._kernel_map:CenteredNystroem",
    "Coded": "labelfold.app.registry._adapters:OnClassCodes",
    "ColumnStack": "labelfold.tables._stack:ColumnStack",
    "EachValue": "labelfold.tables._steps:DistinctValueEncoder",
    "FoldEmbedding": "labelfold.semi_supervised._blend:FoldEmbedding",
    "FormMap": "labelfold.semi_supervised._views:FormMap",
    "FormScore": "labelfold.semi_supervised._blend:FormScore",
    "HashedWords": "labelfold.tables._steps:HashedWords",
    "KernelMap": "labelfold.features._kernel_map:KernelMap",
    "KernelScore": "labelfold.semi_supervised._blend:KernelScore",
    "Labelled": "labelfold.app.registry._adapters:OnLabelledRows",
    "Moments": "labelfold.discriminant._streaming:Moments",
    "PerLabel": "labelfold.app.registry._adapters:PerLabel",
    "Principal": "labelfold.features._principal:Principal",
    "PrincipalAxes": "labelfold.features._principal:PrincipalAxes",
    "Ranks": "labelfold.features._forms:Ranks",
    "ReadDates": "labelfold.tables._steps:ReadDates",
    "ReadLists": "labelfold.tables._steps:ReadLists",
    "ReadNumbers": "labelfold.tables._steps:ReadNumbers",
    "ReadText": "labelfold.tables._steps:ReadText",
    "ReduceThenClassify": "labelfold.app.registry._adapters:ReduceThenClassify",
    "RootCounts": "labelfold.features._forms:RootCounts",
    "ScikitLDA": "labelfold.app.registry._reducers:ScikitLDA",
    "SupervisedUMAP": "labelfold.app.registry._reducers:SupervisedUMAP",
    "Terms": "labelfold.tables._steps:Terms",
    "TfIdf": "labelfold.features._forms:TfIdf",
    "TreeNodes": "labelfold.semi_supervised._trees:TreeNodes",
    "Trees": "labelfold.app.registry._predictors:Trees",
    "Tuned": "labelfold.app.registry._tuned:Tuned",
    "UnitRows": "labelfold.features._forms:UnitRows",
    "UnitSpread": "labelfold.app.registry._tuned:UnitSpread",
    "UnitVariance": "labelfold.features._forms:UnitVariance",
}


def public_paths() -> dict[str, str]:
    """Return every path by which a saved model may name a class of labelfold, with the current place of the class.

    Examples
    --------
    >>> public_paths()["labelfold.saved.Tuned"]
    'labelfold.app.registry._tuned:Tuned'
    """
    estimators = {f"labelfold.{name}": place for name, place in _ESTIMATORS.items()}
    return estimators | {f"{__name__}.{name}": place for name, place in _PLACES.items()}


def public_path(module: str, name: str) -> str | None:
    """Return the path of a class in saved models, given its module and name; None if it has none.

    Examples
    --------
    >>> public_path("labelfold.app.registry._tuned", "Tuned")
    'labelfold.saved.Tuned'
    >>> public_path("labelfold.app.registry._tuned", "without_tuning") is None
    True
    """
    for path, place in public_paths().items():
        home, _, attribute = place.partition(":")
        if attribute == name and getattr(import_module(home), name).__module__ == module:
            return path
    return None


# The key of the class in a dict that stands for an object.
_CLASS = "class of labelfold"


def plain(value: Any, _done: dict[int, tuple[Any, Any]] | None = None) -> Any:
    """Return dicts in place of objects of labelfold, at any depth of dicts, lists and tuples; `rebuilt` undoes it.

    A model file then names no class but the estimator's own. An object that occurs twice becomes one dict.

    Examples
    --------
    >>> from labelfold import saved
    >>> unit = saved.UnitSpread().fit([[0.0], [4.0]])
    >>> told = plain([unit])
    >>> told[0]["class of labelfold"], rebuilt(told)[0].scale_
    ('labelfold.saved.UnitSpread', 2.0)
    """
    done = {} if _done is None else _done
    if id(value) in done:
        return done[id(value)][1]
    made = value
    if type(value) is dict:
        made = {key: plain(one, done) for key, one in value.items()}
    elif type(value) in (list, tuple):
        made = type(value)(plain(one, done) for one in value)
    elif type(value).__module__.startswith("labelfold."):
        path = public_path(type(value).__module__, type(value).__name__)
        made = value if path is None else {_CLASS: path, "state": plain(value.__getstate__(), done)}
    done[id(value)] = value, made  # the value is kept, so that no other gets its id
    return made


def rebuilt(value: Any, _done: dict[int, Any] | None = None) -> Any:
    """Return the objects that `plain` made dicts of. Only classes that this module lists are made."""
    done = {} if _done is None else _done
    if id(value) in done:
        return done[id(value)]
    made = value
    if type(value) is dict and _CLASS in value:
        home, _, attribute = public_paths()[value[_CLASS]].partition(":")
        kind, state = getattr(import_module(home), attribute), rebuilt(value["state"], done)
        made = kind.__new__(kind)
        if hasattr(made, "__setstate__"):
            made.__setstate__(state)
        else:
            made.__dict__.update(state)
    elif type(value) is dict:
        made = {key: rebuilt(one, done) for key, one in value.items()}
    elif type(value) in (list, tuple):
        made = type(value)(rebuilt(one, done) for one in value)
    done[id(value)] = made
    return made


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(_PLACES)}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return [*_PLACES, "plain", "public_path", "public_paths", "rebuilt"]
