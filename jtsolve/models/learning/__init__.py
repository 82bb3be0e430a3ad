"""Models from data: tables in closed form, mixtures by expectation-maximisation."""
