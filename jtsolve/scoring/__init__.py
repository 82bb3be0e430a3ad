"""Local scores of data: counting, scores by name, tables of scores and scores on demand."""
