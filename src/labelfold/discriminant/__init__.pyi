from ._cca import (
    CCA as CCA,
)
from ._hsl import (
    HSL as HSL,
)
from ._lda import (
    LDA as LDA,
)
from ._opls import (
    OPLS as OPLS,
)
from ._ssdr import (
    SSDR as SSDR,
)
