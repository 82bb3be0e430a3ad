"""Configuration of the site: `sphinx-build -W --keep-going docs build/site`."""

from __future__ import annotations

import sys
from pathlib import Path

import jtsolve

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # the extensions beside this file

project = "jtsolve"
author = "The jtsolve developers"
project_copyright = author
version = release = jtsolve.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "backend_pages",
    "comparison_page",
    "notebooks",
    "pictures",
    "repository_pages",
]

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
_printed = (path.name for path in HERE.glob("benchmarks/*.md"))  # output of scripts
exclude_patterns = [f"benchmarks/{name}" for name in _printed if name != "density20.md"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
default_role = "code"  # names in docstrings have single backticks

smartquotes_action = "D"  # dashes, but no quotes: pages quote what readers type

html_theme = "furo"
html_title = "jtsolve"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["tabs.js"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"
