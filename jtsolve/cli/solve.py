"""`jtsolve solve`: the best junction tree of an instance or a data file, or the best ones in order."""

from functools import partial
from typing import TYPE_CHECKING

import typer

from jtsolve.cli.options import JSON, QUIET, Instance, Options, ResultFile, with_options
from jtsolve.cli.output import FOUND, INFEASIBLE, INTERRUPTED, NO_TREE, show_findings
from jtsolve.cli.problems import PROBLEM, read_task
from jtsolve.core.formats import CERTIFICATE, RESULT
from jtsolve.core.outputs import claim_outputs
from jtsolve.options import BACKEND, K_BEST, PROOF, WITHIN
from jtsolve.scoring.score import MIXED_SCORE

if TYPE_CHECKING:
    from jtsolve.core.result import Result
    from jtsolve.solving import Choice


@with_options(*PROBLEM, BACKEND, K_BEST, WITHIN, PROOF, JSON, QUIET)
def solve(
    *,
    instance: Instance,
    output: ResultFile = None,
    options: Options,
) -> None:
    """Find the best junction tree of an instance, or of a data file.

    Data files end in .csv, .tsv, .txt, .data, .parquet, .arrow, .feather, .arff or .dat, compressed or not;
    any other file is read as data with --score. More than 26 columns need a --treewidth.

    With --k-best or --within: the best trees in order, by a backend that can forbid graphs. With
    --certificate, 'clutter' proves the bound, as a member of the portfolio or, after any other exact backend,
    in the remaining time; see 'jtsolve check'. If the proof fails, the answer is written without it, and the
    exit code is 4. The first Ctrl-C or SIGTERM ends the run with the best tree so far.
    """
    claim_outputs(output, kind=RESULT)
    claim_outputs(options.certificate, kind=CERTIFICATE)
    from jtsolve.study.arguments import backend_of

    searcher = backend_of(options.backend)
    run = options.run()

    from jtsolve.core.ranking import Ranking
    from jtsolve.kbest import require_number
    from jtsolve.study.solving import answer

    k, within, certificate = options.k_best, options.within, options.certificate
    if k is not None or within is not None:
        require_number(k, within)
    problem, _, _ = read_task(options, instance, run, MIXED_SCORE, backend=searcher)
    found = answer(problem, run, backend=searcher, certificate=certificate, k=k, within=within)

    from jtsolve.solving import findings_of

    if isinstance(found.found, Ranking):
        from jtsolve.io.ranking import ranking_to_document, ranking_to_json
        from jtsolve.io.summary import describe_ranking

        best, data = found.found.best, ranking_to_json(found.found)
        text = partial(describe_ranking, ranking_to_document(found.found), "the results")
    else:
        from jtsolve.io.result import result_to_document, result_to_json
        from jtsolve.io.summary import result_text

        best, data = found.found, result_to_json(found.found)
        text = partial(result_text, result_to_document(best), "the result")
    facts = _facts(found.choice)
    options.deliver(data, lambda: text(facts), output)
    if not options.quiet:
        show_findings("check of the answer", findings_of(problem, best.tree))
    if found.uncertified is not None:
        raise found.uncertified
    raise typer.Exit(_exit_code(best))


def _exit_code(result: "Result") -> int:
    from jtsolve.core.result import Status, Stop

    if result.tree is not None:
        return FOUND
    if result.status is Status.INFEASIBLE:
        return INFEASIBLE
    return INTERRUPTED if result.stop is Stop.INTERRUPTED else NO_TREE


def _facts(choice: "Choice") -> dict[str, str]:
    """Returns the lines of a summary on memory and backend."""
    from jtsolve.core.machine import peak_memory

    predicted = choice.estimate.memory / 1e9
    return {
        "memory": f"{peak_memory() / 1e9:.3g} GB at the peak, {predicted:.3g} GB predicted",
        "backend": f"{choice.backend.name}: {choice.reason.rstrip('.')}",
    }
