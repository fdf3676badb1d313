"""The connection is cut in the middle of a call."""

from __future__ import annotations

from collections import Counter

from psycopg.conninfo import make_conninfo

from evals.faults.ledger import WORKSPACE, Outcome, note_error, writing
from evals.faults.proxy import Moment, Proxy, proxy
from evals.faults.servers import Place, until
from remem_pg import Remem

MOMENTS: tuple[Moment, ...] = ("request", "reply", "half")


def cut(place: Place, rounds: int) -> Outcome:
    """Each moment ``rounds`` times under writers; then each once under a reader, which must not
    even notice."""
    outcome = Outcome("connection cut", "request lost, reply lost, half a reply; writes and reads")
    with (
        place.cluster("cut") as cluster,
        proxy(place.directory / "cable", cluster.socket_directory) as cable,
    ):
        through = make_conninfo(cluster.dsn, host=str(place.directory / "cable"))
        with writing(through, outcome, lambda: cluster.dsn) as writers:
            for _ in range(rounds):
                for moment in MOMENTS:
                    cable.cut(moment)
                    outcome.expect(until(lambda: not cable.armed, 10), "nobody called")
                    outcome.expect(writers.wait_for(5), "the writers did not go on")
        outcome.expect(outcome.failed_calls > 0, "no call failed: the fault was not one")
        outcome.facts["unnoticed reads"] = _read(through, cable, outcome)
        outcome.facts["cuts"] = cable.cuts
        with Remem(cluster.dsn, workspace=WORKSPACE, embedding=None) as client:
            bodies = Counter(memory.body for memory in client.iterate())
        outcome.expect(max(bodies.values()) == 1, "a repeated call wrote twice")
    return outcome


def _read(dsn: str, cable: Proxy, outcome: Outcome) -> int:
    """How many of the cut reads were answered all the same."""
    answered = 0
    with Remem(dsn, workspace=WORKSPACE, embedding="hash") as client:
        expected = [hit.ref for hit in client.recall("which entry of the ledger?", k=3)]
        for moment in MOMENTS:
            cable.cut(moment)
            try:
                found = [hit.ref for hit in client.recall("which entry of the ledger?", k=3)]
            except Exception as error:
                note_error(outcome, error)
                outcome.problems.append(f"a read was not repeated: {error}")
            else:
                answered += found == expected and not cable.armed
    outcome.expect(answered == len(MOMENTS), f"{answered} of {len(MOMENTS)} cut reads answered")
    return answered
