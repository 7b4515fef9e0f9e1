"""Every learner, by the name users write. A new learner is its own file and one line here."""

from typing import Any

from learners.base import AnyLearner
from learners.gaptron import Gaptron
from learners.soba import Soba
from learners.soba_diagonal import SobaDiagonal
from learners.uniform import Uniform

LEARNERS: dict[str, type[Any]] = {cls.algorithm: cls for cls in (Gaptron, Soba, SobaDiagonal, Uniform)}

RECOMMENDED: type[AnyLearner] = SobaDiagonal
"""The learner of a model that names none."""
