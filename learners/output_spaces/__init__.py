"""Output spaces of structured prediction: the possible answers, and randomized decoding of scores into answers.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses
and Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024, section 3 and
Appendix C.1.
"""

from learners.output_spaces.base import Constants, OutputSpace
from learners.output_spaces.binary import Multilabel, Ordinal
from learners.output_spaces.birkhoff import Matching
from learners.output_spaces.permutahedron import Ranking
from learners.output_spaces.simplex import Multiclass

__all__ = ["Constants", "Matching", "Multiclass", "Multilabel", "Ordinal", "OutputSpace", "Ranking"]
