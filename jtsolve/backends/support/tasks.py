"""A solve as tasks on Dask workers, and the news between them and the process that solves.

Both ways go through the scheduler. A task tells trees and bounds as events of a topic. What it is told is in
a `Variable`, at which it looks now and then: the best tree of all, and whether to stop. Stale values do no
harm: a tree counts if it is better than the one known, and a bound of a part holds for that part for ever. So
a task whose worker dies can be done again, as Dask does by itself. If all workers die, and with them the
problem, it is sent again to those that start in their place.

To start workers, and to load kernels there, takes seconds. So a search begins in this process, and workers
join when it has taken as long.

Dask does not end a task that has begun. One that is told to stop does, as does one whose `Variable` nobody
has renewed for a while: the process that wanted its result is gone.
"""

from __future__ import annotations

import pickle
import threading
from collections import deque
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from math import inf
from time import monotonic, process_time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Unpack, runtime_checkable
from uuid import uuid4

from jtsolve.cluster import RESTART, ClusterLostError, WorkersLostError, lost
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jtsolve.cluster import Cluster, Future, Workers
    from jtsolve.core.backend import Backend, News, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree

_PULSE = 0.1
"""Most seconds between two looks of the process that solves, which wakes when something comes."""
_LOOK = 0.3
"""Least seconds between two looks of a task at the `Variable`, each of which takes some thousandths."""
_LOOKING = 0.05
"""Share of the time that looks may take, where others have the processor, up to a look a second."""
_LEAST_LOOKS = 1.0
"""Most seconds between two looks."""
_TELL = 0.2
"""Least seconds between two bounds that a task tells, and between two best trees that it is told."""
_RENEW = 10.0
"""Seconds until the `Variable` is renewed without news."""
_FORSAKEN = 60.0
"""Seconds without renewal after which a task stops."""
_GRACE = 1.0
"""Seconds that tasks have to stop and to hand in what they have."""
_ALONE = 2.5
"""Seconds of processor time that a search takes in this process, for each worker to be started or in all,
before workers join: to start one takes about 2 s."""
_PATIENCE = 10
"""Times as long on the clock, where others have the processor, or programs that a backend has started."""
_LIVES = 3
"""How often a task is given to workers that all die, as Dask does where one dies."""


@runtime_checkable
class SolvesOnWorkers(Protocol):
    """A backend that spreads its work over Dask workers."""

    def solve_on(self, tasks: Tasks, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """Solves a problem without objections, as `Backend.solve` does.

        Raises:
            ClusterLostError: the scheduler is gone.
        """
        ...


class Work(Protocol):
    """The work of tasks, for `Tasks.drive`."""

    def start(self) -> bool:
        """Submits tasks while there is room for them; returns whether any work is left, begun or not."""
        ...

    def hear(self, number: int, news: News) -> None:
        """Takes the news of a task."""
        ...

    def ended(self, number: int, result: Any) -> None:
        """Takes the result of a task; None if it was stopped before it had one."""
        ...

    def failed(self, number: int, error: Exception) -> None:
        """Takes the error of a task."""
        ...


@dataclass(frozen=True, slots=True)
class _TaskSetting:
    """What a task needs besides its arguments: its `Variable` and topic, its number, limits and seed."""

    name: str
    number: int
    time: float | None
    memory: int
    seed: int


class Site:
    """The workers and the problem there, each from its first use on; several `Tasks` share them.

    Args:
        cluster: held.
        problem: travels to each worker once.
    """

    def __init__(self, cluster: Cluster, problem: Problem) -> None:
        self.threads = cluster.threads
        self._cluster = cluster
        self._bare = replace(problem, provenance={})  # of no use to a solver; readers put anything there
        self._alone = _ALONE * (cluster.workers if cluster.is_here else 1)
        self._began, self._spent = monotonic(), process_time()
        self._joined = False
        self._shared: Future | None = None
        self._memory: int | None = None
        self._lock = threading.Lock()

    @property
    def workers(self) -> Workers:
        """The workers, started or asked now if they were not before."""
        with self._cluster.connected() as workers:
            return workers

    def wanted(self, limits: Limits) -> bool:
        """Tells whether the search has lasted so long that workers join; once they have, they stay."""
        if not self._joined:
            spent = max(process_time() - self._spent, (monotonic() - self._began) / _PATIENCE)
            self._joined = spent >= self._alone and not self.too_late(limits)
        return self._joined

    def too_late(self, limits: Limits) -> bool:
        """Tells whether too little time is left to ask workers who have not joined yet."""
        return not self._joined and limits.time is not None and limits.time - limits.elapsed < self._alone

    def memory(self, limits: Limits) -> int:
        """Returns the bytes that a task may take; asked once, since it takes a list of all workers."""
        if self._memory is None:
            self._memory = max(1, int(self.workers.memory(limits.memory_bytes)))
        return self._memory

    def problem(self, lost: Future | None = None) -> Future:
        """Returns the problem on the workers, sent again if this one was lost.

        Raises:
            ClusterLostError: the scheduler is gone.
            WorkersLostError: no worker can take it now.
        """
        with self._lock:
            if self._shared is lost:
                self._shared = self.workers.share(self._bare, None if lost is None else 0)
            return self._shared


class _TaskCall(NamedTuple):
    """A task: how to do it again, what it was given, and how often workers that all die may have it."""

    assignment: _TaskSetting
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    problem: Future
    lives: int


class Tasks:
    """The tasks of a solve; made by `tasks_on`.

    Args:
        site: where they run.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.running: dict[int, Future] = {}
        self.made = 0
        self._calls: dict[int, _TaskCall] = {}
        self._orphans: list[int] = []
        self._orphaned_at = 0.0
        self._name = f"jtsolve-{uuid4().hex}"
        self._heard: deque[bytes] = deque()
        self._woken = threading.Event()
        self._posted: JunctionTree | None = None
        self._posted_at, self._posts = 0.0, 0
        self._variable: Any = None

    def submit(
        self, function: Callable[..., Any], *arguments: Any, limits: Limits, seed: int | None = None
    ) -> int:
        """Starts a task; returns its number.

        Args:
            function: called on a worker with the problem, limits, a report, and the arguments.
            arguments: can be pickled.
            limits: of the solve; the task gets the time that is left, one thread, and the memory of a worker.
            seed: of the task, if not that of the solve.

        Raises:
            ClusterLostError: the scheduler is gone, or no worker comes; nothing is submitted.
        """
        self._open()
        self.made += 1
        assignment = _TaskSetting(
            self._name,
            self.made,
            None if limits.time is None else max(1e-3, limits.time - limits.elapsed),
            self.site.memory(limits),
            limits.seed if seed is None else seed,
        )
        try:
            problem = self.site.problem()
        except WorkersLostError:
            raise lost() from None
        self._call(_TaskCall(assignment, function, arguments, problem, _LIVES))
        return self.made

    def _open(self) -> None:
        """Opens the ways of the news, at the first task."""
        if self._variable is None:
            client = self.site.workers.client
            self._variable = import_module("distributed").Variable(self._name, client=client)
            self._post(None, None)
            with self.site.workers.reaching():
                client.subscribe_topic(self._name, self._hear)

    def _hear(self, event: tuple[float, bytes]) -> None:
        self._heard.append(event[1])
        self._woken.set()

    def _call(self, call: _TaskCall) -> None:
        number = call.assignment.number
        self._calls[number] = call
        self.running[number] = future = self.site.workers.submit(
            _work, call.assignment, call.problem, call.function, *call.arguments
        )
        future.add_done_callback(lambda _: self._woken.set())

    def _wait(self) -> None:
        """Waits until something comes, or it is time to look at the report."""
        self._woken.wait(_PULSE)
        self._woken.clear()

    def drive(self, work: Work, report: Report) -> None:
        """Works until nothing is left, or the report says stop.

        Tasks then get a moment to hand in what they have.

        Raises:
            ClusterLostError: the scheduler is gone.
        """
        while (stop := report.stop) is None:
            if not work.start():
                return
            self._take(work)
            tree = report.incumbent
            since = monotonic() - self._posted_at
            if since > _RENEW or (tree is not self._posted and since > _TELL):
                self._post(None, tree)
            self._wait()
        self._post(stop, None)
        end = monotonic() + _GRACE
        while self.running and monotonic() < end:
            self._take(work)
            self._wait()
        self.cancel()

    def cancel(self) -> None:
        """Cancels all tasks; those that have begun stop at their next look."""
        if self.running and self.site.workers.client.status == "running":
            self.site.workers.cancel(list(self.running.values()))
        for left in (self.running, self._calls, self._orphans):
            left.clear()

    def close(self) -> None:
        """Cancels all tasks and withdraws the `Variable`, without which a task stops."""
        self.cancel()
        if self._variable is not None and self.site.workers.client.status == "running":
            with suppress(ClusterLostError), self.site.workers.reaching():
                self.site.workers.client.unsubscribe_topic(self._name)
                self._variable.delete()

    def solve(self, backend: Backend, limits: Limits, report: Report) -> Outcome:
        """Runs a backend as one task.

        Raises:
            ClusterLostError: the scheduler is gone.
            Exception: that of the backend.
        """
        work = _OneBackend(self, backend, limits, report)
        self.drive(work, report)
        return work.outcome or Outcome(None, stop=report.stop or Stop.INTERRUPTED)

    def _take(self, work: Work) -> None:
        """Hands over news and results that have come; the news of a task come before its result."""
        if self._variable is None:
            return
        done = [(number, one) for number, one in self.running.items() if one.done()]
        while self._heard:
            number, news = pickle.loads(self._heard.popleft())  # noqa: S301 - from our tasks
            if number in self.running:
                work.hear(number, news)
        if self.site.workers.client.status != "running":
            raise lost()
        for number, future in done:
            del self.running[number]
            error = None if future.cancelled() else future.exception()
            try:
                with self.site.workers.reaching():
                    result = None if error is not None else future.result()
            except CancelledError:  # of Dask, whose workers that had what the task needs have died
                self._orphaned_at = self._orphaned_at if self._orphans else monotonic()
                self._orphans.append(number)
                continue
            del self._calls[number]
            if error is None:
                work.ended(number, result)
            else:
                work.failed(number, error)
        if self._orphans:
            self._adopt(work)

    def _adopt(self, work: Work) -> None:
        """Does again what was lost with all workers, once there are others.

        Raises:
            ClusterLostError: none has come for a minute, or the scheduler is gone.
        """
        while self._orphans and self.site.workers.present:
            call = self._calls[self._orphans[-1]]
            try:
                problem = self.site.problem(lost=call.problem)
            except WorkersLostError:  # who came is gone again
                break
            number = self._orphans.pop()
            if call.lives > 1:
                self._call(call._replace(problem=problem, lives=call.lives - 1))
            else:
                del self._calls[number]
                work.failed(number, self.site.workers.loss())
        if self._orphans and monotonic() - self._orphaned_at > RESTART:
            raise lost()

    def _post(self, stop: Stop | None, tree: JunctionTree | None) -> None:
        """Tells all tasks whether to stop, and the best tree."""
        if self._variable is None:
            return
        self._posts += 1
        told = None if stop is None else stop.value
        with self.site.workers.reaching():
            self._variable.set([self._posts, told, None if tree is None else pickle.dumps(tree)])
        self._posted, self._posted_at = tree, monotonic()


@contextmanager
def tasks_on(cluster: Cluster, problem: Problem) -> Iterator[Tasks]:
    """Yields what runs tasks of a problem, which travels to each worker once.

    Raises:
        ChoiceError: there is no scheduler where the cluster names one, or its workers run other versions.
        ClusterLostError: the scheduler is gone.
    """
    with cluster.held() as held, more_tasks(Site(held, problem)) as tasks:
        yield tasks


@contextmanager
def more_tasks(site: Site) -> Iterator[Tasks]:
    """Yields what runs tasks on a site; their news are apart from those of others there."""
    tasks = Tasks(site)
    try:
        yield tasks
    finally:
        tasks.close()


class _OneBackend:
    """A backend as the only task."""

    def __init__(self, tasks: Tasks, backend: Backend, limits: Limits, report: Report) -> None:
        self.report = report
        self.outcome: Outcome | None = None
        tasks.submit(solve_there, backend, limits=limits)
        self.left = True

    def start(self) -> bool:
        """See `Work`."""
        return self.left

    def hear(self, _number: int, news: News) -> None:
        """See `Work`."""
        self.report(**news)

    def ended(self, _number: int, result: Outcome | None) -> None:
        """See `Work`."""
        self.outcome, self.left = result, False

    def failed(self, _number: int, error: Exception) -> None:
        """See `Work`."""
        raise error


def solve_there(problem: Problem, limits: Limits, report: Report, backend: Backend) -> Outcome:
    """Runs a backend; a task."""
    return backend.solve(problem, limits, report)


def _work(assignment: _TaskSetting, problem: Problem, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function on a worker; returns None if it was stopped where it could not say anything."""
    limits = Limits(assignment.time, assignment.memory, threads=1, seed=assignment.seed)
    report = TaskReport(assignment, problem, limits)
    try:
        return function(problem.guarded(report), limits, report, *arguments)
    except StoppedError:
        return None


class TaskReport:
    """The report of a task: tells trees and bounds, and looks at what it is told."""

    def __init__(self, assignment: _TaskSetting, problem: Problem, limits: Limits) -> None:
        self._worker = import_module("distributed").get_worker()
        self._assignment, self._problem, self._limits = assignment, problem, limits
        self._asked: Stop | None = None
        self._best: JunctionTree | None = None
        self._score = -inf
        self._seen, self._renewed, self._next_look, self._next_bound = 0, monotonic(), 0.0, 0.0
        self._lock = threading.Lock()

    @property
    def stop(self) -> Stop | None:
        """See `backend.Report`."""
        self._look()
        late = self._limits.time is not None and self._limits.elapsed >= self._limits.time
        return self._asked or (Stop.TIME if late else None)

    @property
    def incumbent(self) -> JunctionTree | None:
        """See `backend.Report`."""
        self._look()
        return self._best

    def __call__(self, **news: Unpack[News]) -> bool:
        """See `backend.Report`."""
        tree, bound = news.get("tree"), news.get("bound")
        if bound is not None and monotonic() < self._next_bound:
            bound = None
        if tree is not None and not self._learn(tree):
            tree = None
        if tree is not None or bound is not None:
            if bound is not None:
                self._next_bound = monotonic() + _TELL
            message = self._assignment.number, {"tree": tree, "bound": bound}
            self._worker.log_event(self._assignment.name, pickle.dumps(message))
        return self.stop is None

    def _learn(self, tree: JunctionTree) -> bool:
        """Keeps a tree if it is the best one known here."""
        score = tree.score(self._problem.scores)
        with self._lock:
            better = score > self._score
            if better:
                self._best, self._score = tree, score
        return better

    def _look(self) -> None:
        """Looks at the `Variable` if the last look is not too recent."""
        now = monotonic()
        with self._lock:
            if now < self._next_look or self._asked is not None:
                return
            self._next_look = inf  # not while this one lasts
        try:
            count, asked, tree = self._told()
        except (OSError, TimeoutError, RuntimeError):  # withdrawn; the scheduler, or this worker, is gone
            self._asked = Stop.INTERRUPTED
            return
        lasted = monotonic() - now
        self._next_look = now + max(_LOOK, min(_LEAST_LOOKS, lasted / _LOOKING))
        if count != self._seen:
            self._seen, self._renewed = count, now
            self._asked = None if asked is None else Stop(asked)
            if tree is not None:
                self._learn(pickle.loads(tree))  # noqa: S301 - from the process that solves
        elif now - self._renewed > _FORSAKEN:
            self._asked = Stop.INTERRUPTED

    def _told(self) -> Any:
        """Returns the value of the `Variable`, as `Variable.get` does, but without a client on each worker.

        Raises:
            OSError, TimeoutError, RuntimeError: it does not come.
        """
        worker, name = self._worker, self._assignment.name
        ask = import_module("distributed.utils").sync
        answer = ask(
            worker.loop, worker.scheduler.variable_get, name=name, client=worker.id, timeout=_FORSAKEN / 10
        )
        return answer["value"]
