from ._budgets import (
    LabelBudgetSplit as LabelBudgetSplit,
    LabelProblem as LabelProblem,
    default_budgets as default_budgets,
    fold_scores as fold_scores,
    label_curve as label_curve,
    left_out_guesses as left_out_guesses,
)
from ._folds import (
    RepeatedSemiSupervisedKFold as RepeatedSemiSupervisedKFold,
    SemiSupervisedKFold as SemiSupervisedKFold,
)
from ._groups import (
    Groups as Groups,
    copies_of as copies_of,
    read_groups as read_groups,
)
from ._scoring import (
    LabelledScorer as LabelledScorer,
    OneStandardError as OneStandardError,
    chosen_ridge as chosen_ridge,
    default_ridge as default_ridge,
    one_standard_error as one_standard_error,
)
