"""What all sessions of a server may use together, and what each principal may have of it."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final, NoReturn, Protocol

from backhaul_proto.errors import make_error
from backhaul_proto.units import size
from backhaul_server.sessions.accounts import Account, Quotas
from backhaul_server.sessions.claims import Claim, Lack, Lacking, Place

TRY_AGAIN: Final = 1.0
"""Seconds after which a request may come again for which others hold too much."""
LITTLE: Final = 4 << 20
"""Bytes up to which a request goes on when the process itself has become too large."""


class Share(Protocol):
    """A session's part in a pool."""

    principal: str

    @property
    def held(self) -> int:
        """Bytes that it holds at most."""

    def recount(self) -> None:
        """Count what it holds; the pool is told."""


class Guard(Protocol):
    """Knows whether the process has become larger than it may be."""

    def is_over(self) -> bool:
        """Whether it takes no more work that needs memory."""


class Pool:
    """The memory of all sessions together. Sessions may use it from different threads.

    Requests for which there is no room wait in a line, in the order in which they came first. Further ones
    for which there is room may go ahead of the first in line, until all that did so have been given as much
    as it waits for: so a small request does not wait for a large one's sake, and a large one is not passed
    over for ever.

    Args:
        limit: bytes that may be used.
        quotas: how much of it a principal may have, and how many sessions there may be.
        guard: knows when the process has become too large all the same; None: it is not looked at.
        freed: told of bytes that were freed at once by the end of a session.
        device: whose memory it is; empty: the host's.
    """

    def __init__(
        self,
        limit: int,
        quotas: Quotas | None = None,
        guard: Guard | None = None,
        freed: Callable[[int], None] | None = None,
        device: str = "",
    ) -> None:
        self.limit = limit
        self.facts: Mapping[str, object] = {"device": device} if device else {}
        self.option = "--device-memory" if device else "--memory-limit"
        self.quotas = quotas or Quotas()
        self._guard = guard
        self._freed = freed
        self._lock = Lock()
        self._held = 0
        self._aside = 0
        self._shares: set[Share] = set()
        self._accounts: dict[str, Account] = {}
        self._line: list[Place] = []
        self._came = 0

    @property
    def used(self) -> int:
        """Bytes that are held, at most, or set aside."""
        return self._held + self._aside

    @property
    def of_one_principal(self) -> int:
        """Bytes that a principal may use."""
        allowed = self.quotas.principal_memory
        return self.limit if allowed is None else min(self.limit, allowed)

    @property
    def waiting(self) -> int:
        """How many requests wait for memory."""
        return len(self._line)

    def join(self, share: Share) -> None:
        """A session begins. It holds nothing yet.

        Raises:
            QuotaExceeded: its principal has as many as it may.
            ServerBusy: there are as many as there may be, or the process has become too large.
        """
        if self._guard is not None and self._guard.is_over():
            self._refuse_as_over(0)
        quotas = self.quotas
        with self._lock:
            account = self._account(share.principal)
            if account.sessions >= quotas.principal_sessions:
                raise make_error(
                    "QUOTA_EXCEEDED",
                    f"You have {account.sessions} tapes open on this server, as many as one may. Close some "
                    "that are no longer needed; or give each more with --principal-sessions.",
                    quota="sessions",
                    used=account.sessions,
                    allowed=quotas.principal_sessions,
                )
            if len(self._shares) >= quotas.sessions:
                raise make_error(
                    "SERVER_BUSY",
                    f"The server has {len(self._shares)} tapes open, as many as it takes. Try again later; "
                    "close tapes that are no longer needed; or give it more with --sessions.",
                    sessions=len(self._shares),
                    limit=quotas.sessions,
                    retry_after=TRY_AGAIN,
                )
            self._shares.add(share)
            account.sessions += 1

    def leave(self, share: Share) -> None:
        """A session has ended, and holds nothing any more."""
        with self._lock:
            if share not in self._shares:
                return
            held = share.held
            self._shares.remove(share)
            self._accounts[share.principal].sessions -= 1
            self._hold(share.principal, -held)
            self._forget_if_idle(share.principal)
        self.freed(held)

    def freed(self, nbytes: int) -> None:
        """So much was freed, other than by a request that goes on using it."""
        if self._freed is not None and nbytes > 0:
            self._freed(nbytes)

    def read(self) -> tuple[int, int]:
        """Bytes that are held at most, and bytes that are set aside beyond them."""
        with self._lock:
            return self._held, self._aside

    def changed(self, share: Share, difference: int, aside: int = 0) -> None:
        """A session holds so many bytes more, and so many that were set aside for it are free."""
        with self._lock:
            account = self._account(share.principal)
            account.held += difference
            account.aside -= aside
            self._held += difference
            self._aside -= aside
            if self._line and difference < aside:
                self._let_in()

    def reserve(self, share: Share, needed: int, claim: Claim | None = None) -> int | None:
        """Set aside what a session may use beyond what it holds. None when there is no room.

        Returns:
            The bytes set aside, to be returned with `give_back`.

        Args:
            share: the session's.
            needed: bytes, what it holds included.
            claim: what was set aside for the request before, and is part of it from now on.
        """
        if self._guard is not None and needed - share.held > LITTLE and self._guard.is_over():
            return None
        with self._lock:
            aside = needed - share.held
            more = aside if claim is None else aside - claim.aside
            if more > 0 and not self._has_room(share.principal, more, claim):
                return None
            if claim is not None:
                claim.aside = 0
            self._set_aside(share.principal, more)
            return aside

    def reserve_or_refuse(self, share: Share, needed: int, claim: Claim | None = None) -> int:
        """`reserve`, after what the others hold was counted anew.

        Raises:
            QuotaExceeded: its principal has no room for it.
            ServerBusy: the others hold too much, or the process has become too large.
            Lacking: others use too much at the moment.
        """
        with self._lock:
            shares = list(self._shares)
        for each in shares:
            each.recount()
        aside = self.reserve(share, needed, claim)
        if aside is not None:
            return aside
        more = needed - share.held
        if self._guard is not None and more > LITTLE and self._guard.is_over():
            self._refuse_as_over(needed)
        with self._lock:
            self._check_quota(share.principal, more, claim, needed)
            if self._held + more > self.limit:
                self._refuse_as_held(needed, self._held - share.held)
        raise Lacking(Lack(more, needed), self)

    def give_back(self, principal: str, aside: int) -> None:
        """What was set aside is not needed any more."""
        with self._lock:
            self._set_aside(principal, -aside)

    def release(self, claim: Claim) -> None:
        """A claim's bytes are not needed any more. Harmless to repeat."""
        with self._lock:
            aside, claim.aside = claim.aside, 0
            self._set_aside(claim.principal, -aside)
            self._forget_if_idle(claim.principal)

    # The line

    def enter(self, claim: Claim, lack: Lack, beside: int) -> Place | None:
        """Take a place in the line. None when there is room by now: the claim has it.

        Args:
            claim: of the request.
            lack: what is missing for it.
            beside: bytes that are set aside for its message too.

        Raises:
            ServerBusy: what is held, and what others have who wait as well, leaves no room.
        """
        with self._lock:
            if not claim.number:
                self._came += 1
                claim.number = self._came
            more = lack.aside - claim.aside
            if self._has_room(claim.principal, more, claim):
                self._grant(claim, more)
                return None
            place = Place(claim, lack, beside)
            others = self._in_the_way(place)
            if others + lack.aside > self.limit:
                self._refuse_as_held(lack.needed, others - (lack.needed - lack.aside))
            insort(self._line, place)
            return place

    def give_up(self, place: Place) -> None:
        """It waits no more. Harmless when its turn has come."""
        with self._lock:
            if place in self._line:
                self._line.remove(place)
                self._let_in()

    def refuse(self, lack: Lack) -> NoReturn:
        """The wait is over.

        Raises:
            ServerBusy: always.
        """
        raise make_error(
            "SERVER_BUSY",
            f"This would need {size(lack.needed)}, and has waited for the requests of others, that use "
            f"{size(self.used)} of the {size(self.limit)} that all may use together. Nothing was run. "
            f"Try again later; ask for less at once; or give the server more with {self.option}.",
            needed=lack.needed,
            held=self._held,
            used=self.used,
            limit=self.limit,
            retry_after=TRY_AGAIN,
            **self.facts,
        )

    def _let_in(self) -> None:
        while self._line:
            first = self._line[0]
            more = first.lack.aside - first.claim.aside
            if self.used + more <= self.limit and self._quota_has_room(first.claim.principal, more):
                self._grant(first.claim, more)
            elif self._in_the_way(first) + first.lack.aside <= self.limit:
                return
            self._line.pop(0)
            first.left = True
            first.wake()  # without a grant it looks again, and is told why

    def _grant(self, claim: Claim, more: int) -> None:
        self._aside += more
        self._account(claim.principal).aside += more
        claim.aside += more

    def _in_the_way(self, place: Place) -> int:
        """What will still be there when all that runs has ended."""
        parked = sum([each.parked for each in self._line if each is not place])
        return self._held + parked + place.beside

    # Under the lock

    def _has_room(self, principal: str, more: int, claim: Claim | None) -> bool:
        if self._held + self._aside + more > self.limit:
            return False
        if not self._quota_has_room(principal, more):
            return False
        if self._line:
            first = self._line[0]
            if claim is None or not 0 < claim.number < first.claim.number:
                if first.passed + more > first.lack.aside:
                    return False
                first.passed += more
        return True

    def _quota_has_room(self, principal: str, more: int) -> bool:
        allowed = self.quotas.principal_memory
        if allowed is None:
            return True
        account = self._account(principal)
        return account.held + account.aside + more <= allowed

    def _hold(self, principal: str, difference: int) -> None:
        self._held += difference
        self._account(principal).held += difference
        if difference < 0 and self._line:
            self._let_in()

    def _set_aside(self, principal: str, difference: int) -> None:
        self._aside += difference
        self._account(principal).aside += difference
        if difference < 0 and self._line:
            self._let_in()

    def _account(self, principal: str) -> Account:
        found = self._accounts.get(principal)
        if found is None:
            found = self._accounts[principal] = Account()
        return found

    def _forget_if_idle(self, principal: str) -> None:
        account = self._accounts.get(principal)
        if account is not None and account.is_idle:
            del self._accounts[principal]

    # Refusals

    def _check_quota(self, principal: str, more: int, claim: Claim | None, needed: int) -> None:
        own = 0 if claim is None else claim.aside
        if self._quota_has_room(principal, more - own):
            return
        allowed = self.quotas.principal_memory
        assert allowed is not None
        account = self._account(principal)
        # What is set aside is free again when the requests that run have ended.
        later = {"retry_after": TRY_AGAIN} if account.held + more <= allowed else {}
        used = account.held + account.aside - own
        raise make_error(
            "QUOTA_EXCEEDED",
            f"This would need {size(needed)}; your tapes and requests on this server use {size(used)} of the "
            f"{size(allowed)} that one may. Nothing was run. Close tapes that are no longer needed; "
            "ask for less at once; or give each more with --principal-memory.",
            quota="memory",
            needed=needed,
            held=account.held,
            used=used,
            allowed=allowed,
            **later,
            **self.facts,
        )

    def _refuse_as_held(self, needed: int, others: int) -> NoReturn:
        raise make_error(
            "SERVER_BUSY",
            f"This would need {size(needed)}; the other sessions of the server hold {size(others)} of "
            f"the {size(self.limit)} that all may use together. Nothing was run. Try again later; "
            f"close tapes that are no longer needed; or give the server more with {self.option}.",
            needed=needed,
            held=others,
            limit=self.limit,
            retry_after=TRY_AGAIN,
            **self.facts,
        )

    def _refuse_as_over(self, needed: int) -> NoReturn:
        raise make_error(
            "SERVER_BUSY",
            "The server's process has become larger than it may (--rss-limit), and takes no new tapes and "
            "only small requests until that is over. Nothing was run. Try again later; close tapes that "
            "are no longer needed.",
            needed=needed,
            retry_after=TRY_AGAIN,
        )
