"""scikit-learn estimators: density, classifier, regressor, imputer, covariance.

They learn with the defaults of `jtsolve fit`, read arrays and data frames by the rules of `jt.learn`, and
follow scikit-learn's conventions: `check_estimator` passes for all.
"""

import re

try:
    from sklearn import __version__ as _installed
except ModuleNotFoundError as error:
    raise ImportError(
        "jtsolve.estimator needs scikit-learn, which is not installed: pip install 'jtsolve[sklearn]'"
    ) from error
if tuple(map(int, re.findall(r"\d+", _installed)[:2])) < (1, 9):  # of "1.9rc1", too
    raise ImportError(
        f"jtsolve.estimator needs scikit-learn 1.9 or later, and {_installed} is installed: "
        "pip install 'jtsolve[sklearn]'"
    )

from jtsolve.estimator.base import DataWarning
from jtsolve.estimator.classifier import JunctionTreeClassifier
from jtsolve.estimator.covariance import DecomposableCovariance
from jtsolve.estimator.density import JunctionTreeDensity
from jtsolve.estimator.imputer import JunctionTreeImputer
from jtsolve.estimator.regressor import JunctionTreeRegressor

__all__ = [
    "DataWarning",
    "DecomposableCovariance",
    "JunctionTreeClassifier",
    "JunctionTreeDensity",
    "JunctionTreeImputer",
    "JunctionTreeRegressor",
]
