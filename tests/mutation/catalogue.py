"""Every mutation there is."""

from tests.mutation.of_learners import LEARNERS
from tests.mutation.of_mathematics import MATHEMATICS
from tests.mutation.of_service import SERVICE

MUTATIONS = [mutation for place in (*MATHEMATICS, *LEARNERS, *SERVICE) for mutation in place.mutations()]
