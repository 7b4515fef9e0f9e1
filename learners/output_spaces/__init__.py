"""Output spaces of structured prediction: the possible answers, and randomized decoding of scores into answers.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses
and Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024, section 3 and
Appendices B and C.
"""

from learners.output_spaces.base import Constants, OutputSpace
from learners.output_spaces.binary import Multilabel, Ordinal
from learners.output_spaces.birkhoff import Matching
from learners.output_spaces.fixed_size import FixedSize
from learners.output_spaces.listed import Crf, Listed
from learners.output_spaces.permutahedron import Ranking
from learners.output_spaces.polytope import Polytope
from learners.output_spaces.simplex import Multiclass

__all__ = [
    "Constants",
    "Crf",
    "FixedSize",
    "Listed",
    "Matching",
    "Multiclass",
    "Multilabel",
    "Ordinal",
    "OutputSpace",
    "Polytope",
    "Ranking",
]
