from ._vectors import (
    add_rows as add_rows,
    add_to_rows as add_to_rows,
    aligned as aligned,
    row_products as row_products,
    run as run,
)
