"""Learning models from data: trees, tables in closed form, mixtures by expectation-maximisation."""
