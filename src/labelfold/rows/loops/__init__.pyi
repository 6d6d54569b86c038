from ._triton_ratios import (
    ratio_rows as ratio_rows,
    ratio_sums as ratio_sums,
)
from ._vectors import (
    add_plain_rows as add_plain_rows,
    add_rows as add_rows,
    add_to_rows as add_to_rows,
    aligned as aligned,
    plain_products as plain_products,
    row_products as row_products,
    run as run,
)
