from ._blocks import (
    Block as Block,
    add_product as add_product,
    less_outer as less_outer,
    triangle_of as triangle_of,
)
from ._containers import (
    as_rows as as_rows,
    columns_of as columns_of,
    first_unlike_a_number as first_unlike_a_number,
    gathered as gathered,
    is_table as is_table,
    refuse_odd_table as refuse_odd_table,
    stored_values as stored_values,
)
from ._host import (
    dense as dense,
    dense_if_full as dense_if_full,
    formed as formed,
    host as host,
    largest_one as largest_one,
    less_median as less_median,
    on_entries as on_entries,
    row_hashes as row_hashes,
    short_indices as short_indices,
)
from ._protocol import (
    Rows as Rows,
)
from ._sums import (
    ArrayTerm as ArrayTerm,
    Term as Term,
    total as total,
)
from ._threads import (
    blas_for as blas_for,
    in_order as in_order,
    n_threads as n_threads,
    run_jobs as run_jobs,
    shares as shares,
    single_blas as single_blas,
)
from ._wrappers import (
    Centered as Centered,
    Featurized as Featurized,
    RowsWrapper as RowsWrapper,
    Weighted as Weighted,
    center_parts as center_parts,
    centered as centered,
)
from .adapters._device_blocks import (
    any_to_host as any_to_host,
    outer_spectrum as outer_spectrum,
    to_device as to_device,
    to_host as to_host,
)
from .adapters._files import (
    read_rows as read_rows,
)
from .adapters._local import (
    all_finite as all_finite,
    dense_block_rows as dense_block_rows,
)
from .loops import (
    on_gpu as on_gpu,
    tiled as tiled,
)
from .loops._vectors import (
    add_plain_rows as add_plain_rows,
    add_rows as add_rows,
    add_to_rows as add_to_rows,
    aligned as aligned,
    plain_products as plain_products,
    row_products as row_products,
)
