from ._triton_ratios import (
    ratio_rows as ratio_rows,
    ratio_sums as ratio_sums,
)
