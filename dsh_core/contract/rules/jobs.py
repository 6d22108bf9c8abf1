"""Rules of the ``jobs`` package: what runs in the background, and what becomes of it."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from msgspec import Raw, Struct

from dsh_core.contract.fields import fingerprint, is_filled, is_whole, plain, shown
from dsh_core.contract.newest import Ids
from dsh_core.contract.rule import Rule, RuleSet
from dsh_core.events import Contract
from dsh_core.parts import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsh_core.contract.findings import Finding
    from dsh_core.contract.rule import Handler
    from dsh_core.contract.run import Run
    from dsh_core.events import EndSeed, SessionEvent

V4 = (Contract.V4,)
REGISTERED: Final = "job/registered"
SETTLED: Final = "job/settled"
TERMINAL: Final = ("completed", "killed", "failed")
MAX_FOLLOWED: Final = 256
"""How many jobs are remembered, the newest."""

MAX_ODD: Final = 64
"""Of how many jobs it is remembered that they were registered with a fault."""

MAX_FOREIGN: Final = 4
"""How many foreign owners are remembered."""

MAX_DELAY: Final = 1000
"""How long after its end, at most, a job is known to have been written, in ms."""

DONE: Final = 0
"""Stands for the fingerprint of a job that is settled."""


class Rules(RuleSet):
    """A job settles at most once, as what it was registered as; it need not settle at all."""

    owner = "jobs"
    rules: ClassVar = (
        Rule(
            "job.times",
            "a job has no label, or its times are missing, out of order or not due yet",
            "Stamp startedAt when a job is registered, finishedAt only when it settles.",
            on=(REGISTERED, SETTLED),
            contracts=V4,
        ),
        Rule(
            "job.owner",
            "a job is owned by another session",
            "Log a job in the session that owns it.",
            on=(REGISTERED, SETTLED),
            contracts=V4,
        ),
        Rule(
            "job.settle-unpaired",
            "a job settles that was not registered, settles twice, or settles as another job",
            "Register each job first, and repeat its kind, label, startedAt and owner at the end.",
            on=(SETTLED,),
            contracts=V4,
        ),
    )

    def __init__(self, run: Run) -> None:
        """Start with a fresh session."""
        super().__init__(run)
        self._ids = array("q")
        self._fingerprints = array("q")
        self._dropped = False
        self._odd = Ids(MAX_ODD)
        # By owner: what says that it is a foreign one.
        self._foreign: dict[int, Finding] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Return what to call by event type."""
        if self.run.contract is not Contract.V4:
            return {}
        return {
            REGISTERED: self._registered,
            SETTLED: self._settled,
            "session/end-seed": self._end_seed,
        }

    def _end_seed(self, event: EndSeed, _line: int) -> None:
        if event.data.inherited:
            # What was foreign was inherited.
            self._foreign = {}

    def _read(self, event: SessionEvent) -> _Job | None:
        """Return what an event that is news says of a job."""
        if self.run.repeating:
            return None
        try:
            return _decode(event.data)
        except (msgspec.MsgspecError, RecursionError):
            # It is no object, which is a finding of its own. It may have been any job.
            self._dropped = True
            return None

    def _registered(self, event: SessionEvent, line: int) -> None:
        job = self._read(event)
        if job is None:
            return
        foreign = self._is_foreign(event, line, job)
        problem = _problem(job)
        if not problem and job.finished_at is not ABSENT:
            problem = "finishedAt is there before the job is done"
        if self._untimely(problem, event, line) or foreign:
            # The end of the job may repeat it or not: that is no news.
            self._odd.add(bytes(job.job_id))
        self._remember(job, job.fingerprint)

    def _settled(self, event: SessionEvent, line: int) -> None:
        job = self._read(event)
        if job is None:
            return
        odd = self._is_foreign(event, line, job) or bytes(job.job_id) in self._odd
        if not odd:
            odd = self._untimely(_problem(job) or _end_problem(job, event.time), event, line)
        id_ = plain(job.job_id)
        if not is_filled(id_):
            return
        known = self._known(id_)
        if known is None:
            lost = self._dropped or self.run.unseen(event)
            problem = "" if lost else f"{shown(id_)} settles and was not registered"
        elif known == DONE:
            problem = f"{shown(id_)} settles again"
        elif known != job.fingerprint and not odd:
            problem = (
                f"{shown(id_)} settles with another kind, label, startedAt or owner than it was"
                " registered with"
            )
        else:
            problem = ""
        if problem and not self.run.explained(event, ("job", hash(id_))):
            known_by = self.trip("job.settle-unpaired", problem, event, line)
            self.run.blame(known_by, ("job", hash(id_)))
        self._remember(job, DONE)

    def _untimely(self, problem: str, event: SessionEvent, line: int) -> bool:
        """Report a wrong time or label if there is one; return whether that explains more."""
        if problem:
            self.trip("job.times", problem, event, line)
        return bool(problem) and self.run.enabled("job.times")

    def _is_foreign(self, event: SessionEvent, line: int, job: _Job) -> bool:
        """Judge whose job it is; return whether that explains what else is wrong with it."""
        run, owner = self.run, plain(job.owner)
        if not run.header_known or owner == run.header.id or not run.is_own(event):
            return False
        key = fingerprint(job.owner)
        known = self._foreign.get(key)
        if known is not None:
            # A log that was given to another session is one cause.
            known.fold(event.seq)
            return True
        finding = self.trip(
            "job.owner",
            f"the job is owned by {shown(owner)}",
            event,
            line,
            own=True,
            expected=shown(run.header.id),
            got=shown(owner),
        )
        if finding is not None and len(self._foreign) < MAX_FOREIGN:
            self._foreign[key] = finding
        return run.enabled("job.owner")

    def _known(self, id_: str) -> int | None:
        key = hash(id_)
        return self._fingerprints[self._ids.index(key)] if key in self._ids else None

    def _remember(self, job: _Job, mark: int) -> None:
        """Take in what is known of a job now."""
        id_ = plain(job.job_id)
        if not is_filled(id_):
            return
        key = hash(id_)
        if key in self._ids:
            self._fingerprints[self._ids.index(key)] = mark
            return
        self._ids.append(key)
        self._fingerprints.append(mark)
        if len(self._ids) > MAX_FOLLOWED:
            del self._ids[0], self._fingerprints[0]
            self._dropped = True


class _Job(Struct, rename="camel", gc=False):
    """What is read of a payload."""

    job_id: Raw = ABSENT
    owner: Raw = ABSENT
    kind: Raw = ABSENT
    label: Raw = ABSENT
    started_at: Raw = ABSENT
    finished_at: Raw = ABSENT
    status: Raw = ABSENT

    @property
    def fingerprint(self) -> int:
        """Stands for what the end of a job repeats."""
        return fingerprint(self.owner, self.kind, self.label, self.started_at) or DONE + 1


_decode: Final = msgspec.json.Decoder(_Job).decode


def _problem(job: _Job) -> str:
    """Say what is wrong with what both events of a job say."""
    if not is_whole(plain(job.started_at)):
        return "startedAt is no time"
    return "" if is_filled(plain(job.label)) else "label is empty"


def _end_problem(job: _Job, time: int) -> str:
    """Say what is wrong with the time that a job ended at.

    Args:
        job: What the end of the job says.
        time: When it was written.
    """
    finished, started = plain(job.finished_at), plain(job.started_at)
    over = job.status is ABSENT or plain(job.status) in TERMINAL
    if over is (job.finished_at is ABSENT):
        return "finishedAt is missing" if over else "finishedAt is there before the job is done"
    if not over or (is_whole(finished) and finished >= started):
        return ""
    if not is_whole(finished):
        return "finishedAt is no time"
    # A clock that was set back meanwhile stamped the event, too.
    set_back = time < started or abs(time - finished) <= MAX_DELAY
    return "" if set_back else "finishedAt is too early"
