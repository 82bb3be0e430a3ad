"""Colours of all pictures."""

TEXT, EDGE, EDGE_TEXT, BACKGROUND = "#14202e", "#6f7f91", "#8a4b08", "#ffffff"
POSITIVE, NEGATIVE = "#2b6cb0", "#c0392b"
_GROUP_FILLS = ("#fde8c8", "#d6efd2", "#e3daf2", "#f9d7de", "#cfecec", "#f3f0b8", "#dcdfe6", "#f6d3b3")


def group_fill(group: int) -> str:
    """Returns the colour of the nodes of a group."""
    return _GROUP_FILLS[group % len(_GROUP_FILLS)]
