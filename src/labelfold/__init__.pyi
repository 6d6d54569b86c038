# Names from the families are written by `make docs`, from their stubs.
from . import (
    app as app,
    base as base,
    discriminant as discriminant,
    factorization as factorization,
    features as features,
    labels as labels,
    model_selection as model_selection,
    numerics as numerics,
    rows as rows,
    semi_supervised as semi_supervised,
    subspace as subspace,
    tables as tables,
    utils as utils,
)
from .app.io import (
    load_model as load,
    save_model as save,
)
from .app.label import (
    label as label,
)
from .app.report import (
    compare as compare,
)
from .discriminant import (
    CCA as CCA,
    HSL as HSL,
    LDA as LDA,
    OPLS as OPLS,
    SSDR as SSDR,
)
from .factorization import (
    CNMF as CNMF,
    DRSVM as DRSVM,
    KLNMF as KLNMF,
    LSDR as LSDR,
    NSDR as NSDR,
    SSNMF as SSNMF,
    NMFAlpha as NMFAlpha,
)
from .features import (
    layout as layout,
)
from .rows import (
    as_rows as as_rows,
)
from .semi_supervised import (
    TSVM as TSVM,
    LabelFold as LabelFold,
    LapRLS as LapRLS,
)
from .subspace import (
    PCALS as PCALS,
    KernelPCALS as KernelPCALS,
)
from .tables import (
    Recipe as Recipe,
    UnseenValuesWarning as UnseenValuesWarning,
)

__version__: str
_ESTIMATORS: dict[str, str]

__all__ = [
    "CCA",
    "CNMF",
    "DRSVM",
    "HSL",
    "KLNMF",
    "LDA",
    "LSDR",
    "NSDR",
    "OPLS",
    "PCALS",
    "SSDR",
    "SSNMF",
    "TSVM",
    "KernelPCALS",
    "LabelFold",
    "LapRLS",
    "NMFAlpha",
    "Recipe",
    "UnseenValuesWarning",
    "__version__",
    "as_rows",
    "compare",
    "label",
    "layout",
    "load",
    "save",
]
