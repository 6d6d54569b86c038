from ._adapters import (
    fit_grouped as fit_grouped,
    full_y as full_y,
    only_missing as only_missing,
)
from ._class_weights import (
    for_classes as for_classes,
    read_class_weight as read_class_weight,
    weights_sentence as weights_sentence,
)
from ._column_forms import (
    AS_IS as AS_IS,
    UNIT_VARIANCE as UNIT_VARIANCE,
    chosen_form as chosen_form,
    form_of as form_of,
)
from ._method import (
    Facts as Facts,
    Method as Method,
)
from ._methods import (
    METHODS as METHODS,
    get_method as get_method,
    ranked_methods as ranked_methods,
)
from ._tuned import (
    without_tuning as without_tuning,
)
