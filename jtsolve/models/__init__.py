"""Junction trees with clique tables: fitting to data, inference, files."""
