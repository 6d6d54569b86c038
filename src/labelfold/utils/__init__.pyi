from ._compiled import (
    FAST as FAST,
    compiled as compiled,
    dot as dot,
)
from ._progress import (
    Progress as Progress,
    warn_of_early_end as warn_of_early_end,
)
from ._sklearn import (
    Interval as Interval,
    StrOptions as StrOptions,
    _check_feature_names as _check_feature_names,
    _check_n_features as _check_n_features,
    _fit_context as _fit_context,
    _safe_indexing as _safe_indexing,
    available_if as available_if,
)
from ._warn import (
    warn_user as warn_user,
)
