"""`jtsolve backends`: the registered backends."""

from typing import TYPE_CHECKING, Any

from jtsolve.cli.options import Json
from jtsolve.cli.output import emit

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend


def backends(*, json: Json = False) -> None:
    """List the backends, their limits and their options."""
    from jtsolve.backends.registry import REGISTRY

    if json:
        from json import dumps

        emit(dumps([_facts(backend) for backend in REGISTRY.values()], indent=2, ensure_ascii=False))
    else:
        emit("\n\n".join(_paragraph(backend) for backend in REGISTRY.values()))


def _facts(backend: "Backend") -> dict[str, Any]:
    """Returns the declarations of a backend as JSON values."""
    from jtsolve.backends.parse import shown_options

    capabilities = backend.capabilities
    return {
        "name": backend.name,
        "summary": (type(backend).__doc__ or "").strip().partition("\n")[0],
        "exact": capabilities.exact,
        "max_variables": capabilities.max_variables,
        "constraints": sorted(feature.value for feature in capabilities.features),
        "options": shown_options(backend),
    }


def _paragraph(backend: "Backend") -> str:
    facts = _facts(backend)
    kind = "exact" if facts["exact"] else "heuristic"
    most = "any number of" if facts["max_variables"] is None else f"at most {facts['max_variables']}"
    options = ", ".join(f"{key}={value}" for key, value in facts["options"].items())
    lines = [
        f"{facts['name']}: {kind}, {most} variables",
        f"  {facts['summary']}",
        f"  constraints  {_supported(backend)}",
        f"  options      {options or 'none'}",
    ]
    return "\n".join(lines)


def _supported(backend: "Backend") -> str:
    """Returns the supported constraints, or those missing where these are fewer."""
    from jtsolve.core.problem import ALL_FEATURES

    supported = sorted(feature.value for feature in backend.capabilities.features)
    missing = sorted(feature.value for feature in ALL_FEATURES - backend.capabilities.features)
    if not missing:
        return "all"
    if len(missing) < len(supported):
        return f"all but {', '.join(missing)}"
    return ", ".join(supported) or "none"
