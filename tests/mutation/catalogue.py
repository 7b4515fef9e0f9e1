"""Every mutation there is, and which of the well-known slips each of them is."""

from tests.mutation.of_access import ACCESS
from tests.mutation.of_gradient_learners import GRADIENT_LEARNERS
from tests.mutation.of_mathematics import MATHEMATICS
from tests.mutation.of_matrix_learners import MATRIX_LEARNERS
from tests.mutation.of_output_spaces import OUTPUT_SPACES
from tests.mutation.of_service import SERVICE
from tests.mutation.of_store import STORE
from tests.mutation.of_structured_learners import STRUCTURED_LEARNERS

LEARNERS = (*MATHEMATICS, *GRADIENT_LEARNERS, *MATRIX_LEARNERS, *OUTPUT_SPACES, *STRUCTURED_LEARNERS)
PLACES = (*LEARNERS, *STORE, *SERVICE, *ACCESS)
MUTATIONS = [mutation for place in PLACES for mutation in place.mutations()]
