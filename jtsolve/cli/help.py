"""Help of commands in panels: the options that most users need; `--help-all` lists those of experts too."""

from copy import copy
from typing import Any

import typer
from typer.core import TyperCommand

ALL = "jtsolve.help.all"
"""The key of the context under which `--help-all` is noted."""


class PanelCommand(TyperCommand):
    """A command whose options are listed in panels, in the order of their first option."""

    def get_params(self, ctx: Any) -> Any:
        """Returns the parameters, with `--help-all` beside `--help` if there are options of experts."""
        params = super().get_params(ctx)
        if any(getattr(param, "hidden", False) for param in params):
            every: Any = copy(self.get_help_option(ctx))
            every.name, every.opts, every.callback = "help_all", ["--help-all"], _show_all
            every.help = "Show the options of experts, too, and exit."
            return [*params, every]
        return params

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the panels."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            is_argument = param.param_type_name == "argument"
            title = "Arguments" if is_argument else getattr(param, "rich_help_panel", None) or "Options"
            hidden = getattr(param, "hidden", False)
            if hidden and ctx.meta.get(ALL):
                param.hidden = False
            record = param.get_help_record(ctx)
            if hidden:
                param.hidden = True
            if record is not None:
                panels.setdefault(title, []).append(record)
        # Options of every command are last.
        for title in sorted(panels, key=lambda title: title == "Options"):
            with formatter.section(title):
                formatter.write_dl(panels[title])


def _show_all(ctx: Any, _param: Any, requested: bool) -> None:  # noqa: FBT001 - the signature of callbacks
    """Prints the whole help."""
    if requested:
        ctx.meta[ALL] = True
        typer.echo(ctx.get_help())
        ctx.exit()
