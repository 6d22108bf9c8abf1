"""The live sessions of a program."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from dsh_core import invariants
from dsh_core.context import Context
from dsh_core.errors import InvariantError
from dsh_core.events import SessionHeader
from dsh_core.session import SessionStore
from tests.core.session.real import TIME, log, types, violations, with_store

if TYPE_CHECKING:
    from dsh_core.session import Entry, Session


def test_ids_are_session_1_session_2_by_default() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        assert [sessions.create().id, sessions.create("mine").id, sessions.create().id] == [
            "session-1",
            "mine",
            "session-2",
        ]

    with_store(main)


def test_a_default_id_is_one_that_no_live_session_has() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        sessions.create("session-1")
        assert sessions.create().id == "session-2"

    with_store(main)


def test_a_second_session_of_an_id_is_refused_while_the_first_lives() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        first = sessions.create("a")
        with pytest.raises(ValueError, match=r'^session "a" already exists$'):
            sessions.create("a")
        assert sessions.get("a") is first
        sessions.close(first)
        assert sessions.create("a") is not first

    with_store(main)


def test_when_a_session_is_created_it_is_hooked_and_stored_before_anybody_is_told() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        heard: list[tuple[str, Any]] = []

        def created(session: Session) -> None:
            heard.append(("created", sessions.get(session.id) is session))
            session.append("a", {})

        ctx.on("session/created", created)
        ctx.on("session/event", lambda session, entry: heard.append((entry.type, entry.seq)))
        sessions.create()
        assert heard == [("created", True), ("a", 0)]

    with_store(main)


def test_every_appended_event_is_told_with_its_session() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        heard: list[tuple[Session, Entry]] = []
        ctx.on("session/event", lambda session, entry: heard.append((session, entry)))
        session = sessions.create()
        entry = session.append("a", {})
        assert heard == [(session, entry)]

    with_store(main)


def test_no_event_of_the_seed_is_told() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        heard: list[str] = []
        ctx.on("session/event", lambda session, entry: heard.append(entry.type))
        session = sessions.create("b", log(("a", {})))
        session.append("c", {})
        assert (heard, types(session.events)) == (["c"], ["a", "c"])

    with_store(main)


def test_what_a_listener_of_an_event_raises_reaches_the_appender_and_the_event_stays() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        def refuse(session: Session, entry: Entry) -> None:
            raise ValueError("no")

        ctx.on("session/event", refuse)
        session = sessions.create()
        with pytest.raises(ValueError, match=r"^no$"):
            session.append("a", {})
        assert session.seq == 1

    with_store(main)


def test_get_gives_a_live_session_or_none() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        session = sessions.create("a")
        assert sessions.get("a") is session
        assert sessions.get("b") is None

    with_store(main)


def test_list_gives_live_sessions_in_the_order_of_their_creation() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        made = [sessions.create(id_) for id_ in ("b", "a", "c")]
        assert sessions.list() == made
        sessions.close(made[0])
        assert sessions.list() == made[1:]

    with_store(main)


def test_when_the_context_of_a_session_ends_the_hook_is_cleared_and_the_id_is_free() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        heard: list[int] = []
        ctx.on("session/event", lambda session, entry: heard.append(entry.seq))
        made: list[Session] = []

        def body(own: Context) -> None:
            made.append(own.get("sessions").create("a", ctx=own))

        fiber = ctx.inject(["sessions"], body)
        await fiber
        (session,) = made
        session.append("a", {})
        await fiber.dispose()
        session.append("b", {})
        assert heard == [0]
        assert sessions.get("a") is None
        sessions.create("a")

    with_store(main)


def test_a_store_ends_with_its_context_and_its_sessions_with_it() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        closed: list[str] = []
        ctx.on("session/closed", lambda session: closed.append(session.id))
        for id_ in "ab":
            sessions.create(id_)
        await ctx.dispose()
        assert sessions.list() == []
        assert closed == ["b", "a"]

    with_store(main)


def test_a_store_takes_any_configuration_as_a_plugin() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        other = Context()
        await other.plugin(SessionStore, {"what": "ever"})
        assert other.sessions.create().id == "session-1"
        await other.dispose()

    with_store(main)


# Not in the original: ends are told, sessions keep things, and forks are made here.


def test_the_end_of_a_session_is_told_once() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        closed: list[Session] = []
        ctx.on("session/closed", closed.append)
        session = sessions.create()
        sessions.close(session)
        sessions.close(session)
        assert closed == [session]

    with_store(main)


def test_closing_a_session_that_is_over_does_not_end_its_successor() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        first = sessions.create("a")
        sessions.close(first)
        second = sessions.create("a")
        sessions.close(first)
        assert sessions.get("a") is second

    with_store(main)


class Thing:
    """Something that a plugin keeps for a session."""

    def __init__(self, name: str, said: list[str], *, fails: bool = False) -> None:
        self.name = name
        self.said = said
        self.fails = fails

    def close(self) -> None:
        self.said.append(f"{self.name} closed")
        if self.fails:
            raise ValueError("no")


class Abandoned(Thing):
    def abandon(self) -> None:
        self.said.append(f"{self.name} abandoned")


def test_what_plugins_keep_is_closed_after_the_end_was_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        said: list[str] = []
        ctx.on("session/closed", lambda session: said.append("told"))
        session = sessions.create()
        things = {"a": Thing("a", said, fails=True), "b": Abandoned("b", said), "c": 5}
        session.kept.update(things)
        with caplog.at_level(logging.ERROR, "dsh_core"):
            sessions.close(session)
        assert said == ["told", "a closed", "b closed"]
        assert session.kept == {}

    with_store(main)
    # One that fails does not keep the others open.
    assert caplog.messages == ["session 'session-1': ValueError('no')"]


def test_what_plugins_keep_is_closed_even_if_a_listener_raises() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        said: list[str] = []

        def refuse(session: Session) -> None:
            raise ValueError("no")

        ctx.on("session/closed", refuse)
        session = sessions.create()
        session.kept["a"] = Thing("a", said)
        with pytest.raises(ValueError, match=r"^no$"):
            sessions.close(session)
        assert said == ["a closed"]
        assert sessions.list() == []

    with_store(main)


def test_a_session_that_a_listener_refuses_never_lives_and_what_is_kept_is_abandoned() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        said: list[str] = []

        def keep(session: Session) -> None:
            session.kept["a"] = Abandoned("a", said)
            session.kept["b"] = Thing("b", said)

        def refuse(session: Session) -> None:
            raise ValueError("no")

        ctx.on("session/created", keep)
        stop = ctx.on("session/created", refuse)
        with pytest.raises(ValueError, match=r"^no$"):
            sessions.create("a")
        assert sessions.get("a") is None
        assert said == ["a abandoned", "b closed"]
        stop()
        assert sessions.create("a").id == "a"

    with_store(main)


def test_a_header_is_of_generation_4_and_created_now_by_default() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        assert sessions.create("a").header == SessionHeader(id="a", version=4, created_at=TIME)
        header = sessions.create("b", version=3, created_at=5, cwd="/w", origin="subagent").header
        assert header == SessionHeader(id="b", version=3, created_at=5, cwd="/w", origin="subagent")

    with_store(main)


def test_a_fork_begins_with_its_parents_log_and_goes_on_by_itself() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        parent = sessions.create("a", cwd="/w", delegation_depth=2)
        parent.append("turn/start", {"turn": 1})
        fork = sessions.fork(parent, "b")
        fork.append("mine", {}, ignorable=True)
        parent.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
        assert fork.header == SessionHeader(
            id="b",
            version=4,
            created_at=TIME,
            cwd="/w",
            parent_session="a",
            is_seeded=True,
            delegation_depth=2,
        )
        assert types(fork.events) == ["turn/start", "turn/end", "session/end-seed", "mine"]
        assert fork.events[1].data["reason"] == {"kind": "forked"}
        assert types(parent.events) == ["turn/start", "turn/end"]
        assert violations(fork.header, fork.events) == []
        again = sessions.fork(fork)
        assert again.id == "session-1"
        assert violations(again.header, again.events) == []

    with_store(main)


def test_a_plain_copy_of_a_log_is_a_fork_in_the_way_of_the_original() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        parent = sessions.create("a", log(("a", {}), ("b", {})))
        copy = sessions.create("b", parent.events)
        assert copy.append("c", {}).seq == 2
        assert parent.seq == 2

    with_store(main)


def test_forks_of_frozen_history_are_fine() -> None:
    async def main(ctx: Context, sessions: SessionStore) -> None:
        await ctx.plugin(invariants)
        parent = sessions.create()
        parent.append("turn/start", {"turn": 1})
        parent.append("step/start", {"turn": 1, "step": 1})
        fork = sessions.fork(parent)
        with pytest.raises(InvariantError):
            fork.events[0].data["turn"] = 2
        assert violations(fork.header, fork.events) == []

    with_store(main)
