"""The sets and the (vertex, parents) families that a tree may use, for encodings and cutting planes."""
