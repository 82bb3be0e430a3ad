"""The backends, each a module or a package; `registry` names them."""
