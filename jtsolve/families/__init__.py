"""The sets and the (vertex, parents) families that a tree may use, shared by encodings and cutting planes."""
