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
from ._cholesky_features import (
    cholesky_features as cholesky_features,
    round_off as round_off,
)
from ._distances import (
    distances as distances,
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
    default_gamma as default_gamma,
    exact_map as exact_map,
    kernel_columns as kernel_columns,
    kernel_map as kernel_map,
    kernel_params as kernel_params,
    landmarks_for as landmarks_for,
    nystroem_map as nystroem_map,
)
from ._layout import (
    Layout as Layout,
    aligned as aligned,
    layout as layout,
)
from ._principal import (
    DIRECT as DIRECT,
    Axes as Axes,
    Principal as Principal,
    principal_axes as principal_axes,
)
