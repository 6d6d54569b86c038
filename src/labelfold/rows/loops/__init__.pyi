from ._gpu import (
    on_gpu as on_gpu,
    tiled as tiled,
)
from ._triton_loops import (
    COLUMNS as COLUMNS,
    ROWS as ROWS,
    any_length as any_length,
    first_row as first_row,
    lengths as lengths,
    lie_of as lie_of,
    of_row as of_row,
    padded as padded,
    parted_dot as parted_dot,
    parts as parts,
    shift_of as shift_of,
    short as short,
    tile as tile,
    tiles as tiles,
    turned_tile as turned_tile,
    two_parts as two_parts,
)
from ._vectors import (
    run as run,
)
