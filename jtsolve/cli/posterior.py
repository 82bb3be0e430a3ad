"""Posteriors as text, and the view of their files for `jtsolve show`."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.cli.views import View
    from jtsolve.core.tree import JunctionTree

_MOST = 20
"""Cliques and separators shown."""


def describe_posterior(posterior: "GraphPosterior") -> str:
    """Returns the facts of a posterior, one per line, then its edges, cliques and separators."""
    from jtsolve.cli.models import table
    from jtsolve.io.documents import names_of

    def printable(names: list[str]) -> str:
        return "{" + ", ".join(names) + "}"

    status = "converged" if posterior.converged else "NOT CONVERGED: these figures must not be used"
    evidence = posterior.log_evidence
    facts = {
        "method": f"{posterior.method}; {status}",
        "evidence": "not known" if evidence is None else f"{evidence:.6f} nats",
        "prior": ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in posterior.prior.items()),
        "connected": f"{posterior.connected:.4f}",
        "edges": f"{posterior.expected_edges:.2f} expected, {len(posterior.median_graph)} likelier than not",
        "time": f"{posterior.seconds['total']:.3g} s",
    }
    if "remark" in posterior.diagnostics:
        facts["remark"] = str(posterior.diagnostics["remark"])
    lines = [posterior.instance or "(without a name)"]
    lines += [f"  {heading:<10} {fact}" for heading, fact in facts.items()]
    best = set() if posterior.best is None else set(posterior.best.graph_edges)
    pairs = [(u, v) for u in range(posterior.n) for v in range(u + 1, posterior.n)]
    pairs = [pair for pair in pairs if posterior.edges[pair] >= posterior.threshold]
    pairs.sort(key=lambda pair: -posterior.edges[pair])
    rows = [
        [f"{posterior.edges[u, v]:.4f}", f"{posterior.names[u]}–{posterior.names[v]}", "*" * ((u, v) in best)]
        for u, v in pairs
    ]
    lines += ["", table(["probability", "edge", "best tree"], rows)]
    cliques = set() if posterior.best is None else set(posterior.best.cliques)
    separators = set() if posterior.best is None else set(posterior.best.separators)
    for heading, what, listed, own in (
        ("probability", "clique", posterior.cliques, cliques),
        ("expected", "separator", posterior.separators, separators),
    ):
        rows = [
            [f"{value:.4f}", printable(names_of(mask, posterior.names)), "*" * (mask in own)]
            for mask, value in listed[:_MOST]
        ]
        lines += ["", table([heading, what, "best tree"], rows)]
        if len(listed) > _MOST:
            lines.append(f"and {len(listed) - _MOST} more")
    return "\n".join(lines)


def of_posterior(path: Path) -> "View":
    """Returns the view of a posterior file; its tree is the best one."""
    import json

    from jtsolve.averaging.document import read_posterior
    from jtsolve.averaging.heatmap import draw_heat_map
    from jtsolve.cli.views import View
    from jtsolve.core.files import read_file
    from jtsolve.errors import InputError

    posterior = read_posterior(path)

    def best() -> "tuple[JunctionTree, tuple[str, ...]]":
        if posterior.best is None:
            raise InputError(str(path), "$.diagnostics.best", "there is no best tree", "solve the problem")
        return posterior.best, posterior.names

    return View(
        json.loads(read_file(path)),
        lambda: describe_posterior(posterior),
        best,
        None,
        lambda target, kind: draw_heat_map(posterior, target, kind),
    )
