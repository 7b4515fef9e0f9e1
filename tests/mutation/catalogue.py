"""All mutations, by family of algorithms and by guarantee of the service."""

from tests.mutation.of_access import ACCESS
from tests.mutation.of_actions import ACTIONS
from tests.mutation.of_changes import CHANGES
from tests.mutation.of_client import CLIENT
from tests.mutation.of_contexts import CONTEXTS
from tests.mutation.of_dashboard import DASHBOARD
from tests.mutation.of_data import DATA
from tests.mutation.of_eligible import ELIGIBLE
from tests.mutation.of_estimators import ESTIMATORS
from tests.mutation.of_evaluation import EVALUATION
from tests.mutation.of_exploration import EXPLORATION
from tests.mutation.of_fenchel_young import FENCHEL_YOUNG
from tests.mutation.of_gaptron import GAPTRON
from tests.mutation.of_gate import GATE
from tests.mutation.of_lifecycle import LIFECYCLE
from tests.mutation.of_newton import NEWTON
from tests.mutation.of_output_spaces import OUTPUT_SPACES
from tests.mutation.of_perceptrons import PERCEPTRONS
from tests.mutation.of_protocol import PROTOCOL
from tests.mutation.of_regression import REGRESSION
from tests.mutation.of_second_order import SECOND_ORDER
from tests.mutation.of_service import SERVICE
from tests.mutation.of_shadows import SHADOWS
from tests.mutation.of_store import STORE

_FIRST_ORDER = (*GAPTRON, *PERCEPTRONS, *REGRESSION, *FENCHEL_YOUNG, *OUTPUT_SPACES)
_LEARNERS = (*EXPLORATION, *ELIGIBLE, *_FIRST_ORDER, *SECOND_ORDER, *NEWTON)
_SERVICE = (
    *CONTEXTS,
    *ACTIONS,
    *SERVICE,
    *STORE,
    *PROTOCOL,
    *CHANGES,
    *SHADOWS,
    *ACCESS,
    *GATE,
    *CLIENT,
    *DASHBOARD,
    *EVALUATION,
    *DATA,
    *LIFECYCLE,
    *ESTIMATORS,
)
MUTATIONS = [mutation for errors in (*_LEARNERS, *_SERVICE) for mutation in errors.mutations()]
