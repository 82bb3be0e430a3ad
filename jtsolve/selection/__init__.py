"""Graph selection: the edges of an undirected graph, region by region over a junction tree."""
