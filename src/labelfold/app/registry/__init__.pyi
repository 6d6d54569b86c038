from ._columns import (
    AS_IS as AS_IS,
    UNIT_VARIANCE as UNIT_VARIANCE,
    chosen_form as chosen_form,
    form_of as form_of,
)
from ._method import (
    Method as Method,
    fit_grouped as fit_grouped,
)
from ._methods import (
    METHODS as METHODS,
    USES as USES,
    available_methods as available_methods,
    get_method as get_method,
    gloss as gloss,
    install as install,
)
from ._multilabel import (
    coded as coded,
)
from ._partly_labelled import (
    only_missing as only_missing,
)
from ._suitability import (
    Facts as Facts,
    refuse_other_task as refuse_other_task,
    takes as takes,
    why_not as why_not,
)
from ._tuned import (
    settled as settled,
)
