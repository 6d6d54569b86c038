from ._arrays import (
    any_array as any_array,
    beside as beside,
    cast as cast,
    double as double,
    few_entries as few_entries,
    gram_of_entries as gram_of_entries,
    interpolated as interpolated,
    library_of as library_of,
    on_device as on_device,
    product as product,
    squared_norms as squared_norms,
)
from ._blocks import (
    Block as Block,
    dense_block_rows as dense_block_rows,
)
from ._containers import (
    alike as alike,
    as_rows as as_rows,
    check_bytes as check_bytes,
    check_fits as check_fits,
    gathered as gathered,
    is_dask as is_dask,
    validated_rows as validated_rows,
)
from ._distances import (
    AbsoluteDistances as AbsoluteDistances,
    SquaredDistances as SquaredDistances,
)
from ._host import (
    centred_products as centred_products,
    dense as dense,
    dense_if_full as dense_if_full,
    divided_by_maximum as divided_by_maximum,
    on_entries as on_entries,
    row_hashes as row_hashes,
    short_indices as short_indices,
    stored_values as stored_values,
    unit_rows as unit_rows,
)
from ._rows import (
    Centered as Centered,
    Featurized as Featurized,
    Rows as Rows,
    RowsWrapper as RowsWrapper,
    Weighted as Weighted,
    center_parts as center_parts,
)
from ._sparse_products import (
    special as special,
)
from ._sums import (
    ArrayTerm as ArrayTerm,
    Term as Term,
    add_product as add_product,
    total as total,
    triangle_of as triangle_of,
)
from ._threads import (
    in_order as in_order,
    n_threads as n_threads,
    run_jobs as run_jobs,
    shares as shares,
    single_blas as single_blas,
)
from ._vectors import (
    row_products as row_products,
    run as run,
)
from .adapters._dask_workers import (
    lazy_tasks as lazy_tasks,
    with_retries as with_retries,
)
from .adapters._device_blocks import (
    for_gpu_loops as for_gpu_loops,
    in_float64 as in_float64,
    on_accelerator as on_accelerator,
    outer_spectrum as outer_spectrum,
    to_device as to_device,
    to_host as to_host,
)
from .adapters._files import (
    read_rows as read_rows,
)
from .adapters._local import (
    all_finite as all_finite,
)
