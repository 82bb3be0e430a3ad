"""A Sphinx directive for a program and the picture that it writes when the site is built.

    ```{picture} tree.svg
    :caption: The best tree.
    draw_tree(result.tree, problem.names, "tree.svg")
    ```

The program runs in a temporary folder with a link to `instances`. Programs of a page run in order and share
their variables.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_FOLDER = "_pictures"


class Picture(SphinxDirective):  # type: ignore[misc]
    """See the module."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"caption": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Runs the program; returns its text and the captioned picture."""
        name, caption = self.arguments[0], self.options["caption"]
        program = "\n".join(self.content)
        target = Path(self.env.srcdir) / _FOLDER / name
        names = self.env.temp_data.setdefault("names of the page's programs", {})
        try:
            make(program, names, target)
        except Exception as error:  # any exception is an error of the page
            raise self.error(f"the program of {name} fails: {type(error).__name__}: {error}") from error
        text = nodes.literal_block(program, program, language="python")
        image = nodes.image(uri=f"/{_FOLDER}/{name}", alt=caption)
        self.env.note_dependency(str(target))
        figure = nodes.figure("", image, nodes.caption(caption, caption))
        return [text, figure]


def make(program: str, names: dict[str, Any], target: Path) -> None:
    """Runs a program in a temporary folder and moves the picture that it writes to `target`.

    Args:
        program: in Python.
        names: the shared variables of the page's programs, updated.
        target: final path; the program writes a file of this name.

    Raises:
        OSError: the program does not write it.
    """
    instances = Path(__file__).parents[1] / "instances"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("instances").symlink_to(instances, target_is_directory=True)
        exec(compile(program, target.name, "exec"), names)  # noqa: S102 - our own pages
        target.parent.mkdir(exist_ok=True)
        shutil.move(target.name, target)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directive."""
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True}
