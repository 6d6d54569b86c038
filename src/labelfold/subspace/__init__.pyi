from ._kernel_pcals import (
    KernelPCALS as KernelPCALS,
)
from ._pcals import (
    PCALS as PCALS,
)
