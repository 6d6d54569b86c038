from ._blocks import (
    Block as Block,
    dense_block_rows as dense_block_rows,
)
from ._containers import (
    as_rows as as_rows,
    check_bytes as check_bytes,
    check_fits as check_fits,
    gathered as gathered,
    is_dask as is_dask,
    stored_values as stored_values,
    validated_rows as validated_rows,
)
from ._host import (
    dense as dense,
    dense_if_full as dense_if_full,
    divided_by_maximum as divided_by_maximum,
    less_median as less_median,
    on_entries as on_entries,
    row_hashes as row_hashes,
    short_indices as short_indices,
)
from ._rows import (
    Centered as Centered,
    Featurized as Featurized,
    Rows as Rows,
    RowsWrapper as RowsWrapper,
    Weighted as Weighted,
    center_parts as center_parts,
    centered as centered,
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
