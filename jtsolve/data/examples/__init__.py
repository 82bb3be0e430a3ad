"""Small example files, installed with jtsolve.

- `zoo` (`zoo.json.gz`): an instance of 17 variables, the same as `instances/uci/zoo.json.gz`. It has BDeu
  scores of the Zoo data of the UCI Machine Learning Repository (R. Forsyth, 1990; CC BY 4.0), not the data.
- `survey` (`survey.csv`): 2,000 synthetic answers to 8 questions, drawn from the network below with
  `jtsolve sample survey.bif --rows 2000 --seed 1 --output survey.csv`.
- `survey-network` (`survey.bif`): the Bayesian network of these answers, invented for this purpose.
"""

from __future__ import annotations

from pathlib import Path

from jtsolve.errors import ChoiceError, no_such

EXAMPLES = {"survey": "survey.csv", "survey-network": "survey.bif", "zoo": "zoo.json.gz"}
"""Files by name."""


def example(name: str) -> Path:
    """Returns the path of an installed example: "survey" (data), "survey-network", or "zoo" (an instance).

    Raises:
        ChoiceError: there is no such example.

    >>> example("survey").name
    'survey.csv'
    """
    if name not in EXAMPLES:
        raise ChoiceError(no_such("example", name, EXAMPLES))
    return Path(__file__).with_name(EXAMPLES[name])
