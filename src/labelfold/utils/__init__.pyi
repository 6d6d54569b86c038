from ._callback_support import (
    CallbackSupportMixin as CallbackSupportMixin,
)
from ._callbacks import (
    CALLBACKS as CALLBACKS,
    RUNNING as RUNNING,
    fit_task as fit_task,
)
from ._compiled import (
    FAST as FAST,
    compiled as compiled,
    dot as dot,
)
from ._messages import (
    Progress as Progress,
    documentation as documentation,
    warn_of_early_end as warn_of_early_end,
    warn_user as warn_user,
)
from ._packages import (
    Package as Package,
)
from ._sklearn import (
    Interval as Interval,
    StrOptions as StrOptions,
    available_if as available_if,
    check_feature_names as check_feature_names,
    check_n_features as check_n_features,
    fit_context as fit_context,
    safe_indexing as safe_indexing,
)
