from ._cnmf import (
    CNMF as CNMF,
)
from ._drsvm import (
    DRSVM as DRSVM,
)
from ._klnmf import (
    KLNMF as KLNMF,
)
from ._lsdr import (
    LSDR as LSDR,
)
from ._nmf_alpha import (
    NMFAlpha as NMFAlpha,
)
from ._nsdr import (
    NSDR as NSDR,
)
from ._ssnmf import (
    SSNMF as SSNMF,
)
