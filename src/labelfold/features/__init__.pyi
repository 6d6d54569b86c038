from ._anchors import (
    anchor_spaces as anchor_spaces,
    parted as parted,
)
from ._forms import (
    FORMS as FORMS,
    density as density,
    drawn_rows as drawn_rows,
    looks_like_counts as looks_like_counts,
    scatter_rows as scatter_rows,
)
from ._kernel_map import (
    KernelMap as KernelMap,
    cholesky_features as cholesky_features,
    default_gamma as default_gamma,
    kernel_columns as kernel_columns,
    kernel_map as kernel_map,
    round_off as round_off,
)
from ._layout import (
    Layout as Layout,
    aligned as aligned,
    layout as layout,
)
from ._principal import (
    Principal as Principal,
    principal_axes as principal_axes,
)
