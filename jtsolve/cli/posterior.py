"""Posteriors as text."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jtsolve.averaging.posterior import GraphPosterior

_MOST = 20
"""Cliques and separators shown."""
_LEAST = 0.0005


def describe_posterior(posterior: "GraphPosterior") -> str:
    """Returns the facts of a posterior, one per line, then its edges, cliques and separators."""
    from jtsolve.io.documents import names_of
    from jtsolve.listing import table

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
    for heading, name in (("treewidth", "treewidth"), ("sizes", "edges_in_graph")):
        if name in posterior.diagnostics:
            facts[heading] = _distribution(posterior.diagnostics, name)
    if (strengths := posterior.bootstrap) is not None:
        facts["bootstrap"] = (
            f"{strengths.resamples} of {strengths.wanted} resamples, trees by {strengths.backend}, "
            f"{strengths.optimal} of them optimal"
        )
    if "remark" in posterior.diagnostics:
        facts["remark"] = str(posterior.diagnostics["remark"])
    lines = [posterior.instance or "(without a name)"]
    lines += [f"  {heading:<10} {fact}" for heading, fact in facts.items()]
    best = set() if posterior.best is None else set(posterior.best.graph_edges)
    pairs = [(u, v) for u in range(posterior.n) for v in range(u + 1, posterior.n)]
    pairs = [pair for pair in pairs if posterior.edges[pair] >= posterior.threshold]
    pairs.sort(key=lambda pair: -posterior.edges[pair])
    columns = {
        "probability": [f"{posterior.edges[pair]:.4f}" for pair in pairs],
        "edge": [f"{posterior.names[u]}–{posterior.names[v]}" for u, v in pairs],
        "best tree": ["*" * (pair in best) for pair in pairs],
    }
    if posterior.traces is not None:
        columns["error"] = [f"{posterior.traces.errors[pair]:.4f}" for pair in pairs]
    if strengths is not None:
        columns["bootstrap"] = [f"{strengths.edges[pair]:.3f}" for pair in pairs]
    lines += ["", table(list(columns), list(map(list, zip(*columns.values(), strict=True))))]
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


def _distribution(diagnostics: "Mapping[str, Any]", name: str) -> str:
    """Returns the probabilities of numbers in words, and the largest of their errors if they are drawn."""
    shares = [f"{k}: {p:.3f}" for k, p in enumerate(diagnostics[name]) if p >= _LEAST]
    error = max(diagnostics.get(f"{name}_errors", [0.0]))
    return ", ".join(shares) + (f" (each ± {error:.3f} or less)" if error else "")
