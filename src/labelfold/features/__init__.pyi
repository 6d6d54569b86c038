from ._anchors import (
    ROWS_AN_ANCHOR as ROWS_AN_ANCHOR,
    AnchorGraph as AnchorGraph,
    Anchors as Anchors,
    anchor_graph as anchor_graph,
    cluster as cluster,
    joined as joined,
    means_around as means_around,
    nearest_anchors as nearest_anchors,
    rows_around as rows_around,
)
from ._forms import (
    AsTheyAre as AsTheyAre,
    ColumnForm as ColumnForm,
    Formed as Formed,
    Ranks as Ranks,
    RootCounts as RootCounts,
    TfIdf as TfIdf,
    UnitRows as UnitRows,
    UnitVariance as UnitVariance,
    density as density,
    looks_like_counts as looks_like_counts,
    sample as sample,
)
from ._kernel_map import (
    POSITIVE as POSITIVE,
    KernelMap as KernelMap,
    cholesky_features as cholesky_features,
    default_gamma as default_gamma,
    distances as distances,
    kernel_columns as kernel_columns,
    kernel_map as kernel_map,
    kernel_spread as kernel_spread,
    round_off as round_off,
)
from ._layout import (
    Layout as Layout,
    aligned as aligned,
    layout as layout,
)
from ._principal import (
    DIRECT as DIRECT,
    Principal as Principal,
    principal_axes as principal_axes,
)
