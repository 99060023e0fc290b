"""API tokens as the whole fleet knows them: by name, never by value."""

from enum import StrEnum

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.values import hint
from shoal.fetch.tokens.budget import TokenBudget
from shoal.fetch.tokens.local_quota import TOPIC, read_budget
from shoal.fleet.status.rows.fetchers import TokenRow
from shoal.queue.contract import Queue

ALL = "all"  # tokens, to forget them


class TokenState(StrEnum):
    """Whether a token can be used now."""

    READY = "ready"
    RESTING = "resting"  # its quota is used up until the reset
    UNKNOWN = "unknown"  # no response has told its quota yet
    RETIRED = "retired"  # the API has rejected it


class TokenStatus(msgspec.Struct, frozen=True):
    """A token and its remaining quota."""

    key: str
    budget: TokenBudget

    @property
    def name(self) -> str:
        """The display name."""
        return f"token {self.budget.number} ({self.key[:6]})"

    @property
    def state(self) -> TokenState:
        """The token's state in one word."""
        if self.budget.retired:
            return TokenState.RETIRED
        if not self.budget.is_known:
            return TokenState.UNKNOWN
        return TokenState.RESTING if self.budget.left == 0 else TokenState.READY

    def row(self) -> TokenRow:
        """Return the token as `shoal tokens --json` reports it."""
        budget = self.budget
        is_known = budget.is_known and budget.left is not None and not budget.retired
        return TokenRow.of(
            self,
            budget,
            token=self.name,
            left=budget.left if is_known else None,
            limit=budget.limit if is_known else None,
            resets_in_seconds=round(budget.resets_in, 1) if is_known else None,
            reserved=sum(held.units for held in budget.held.values()),
            why=budget.retired or None,
        )


async def tokens(queue: Queue, run_id: str | None = None) -> list[TokenStatus]:
    """Return the tokens of the queue, or those that a run has used recently, ordered by number."""
    if run_id:
        await queue.run(run_id)  # raises UnknownRun
    notes = await queue.notes(TOPIC)
    found = [TokenStatus(key, read_budget(note)) for key, note in notes.items()]
    meant = [one for one in found if run_id is None or run_id in one.budget.runs]
    return sorted(meant, key=lambda one: (one.budget.number, one.key))


async def forget(queue: Queue, names: str) -> int:
    """Forget the recorded state of tokens, so that they are tried again; return how many.

    `names` is "all", "retired", or a part of one name.
    """
    found = await tokens(queue)
    meant = [
        one
        for one in found
        if names == ALL or names == one.state or one.key.startswith(names) or names == one.name
    ]
    if not meant and names not in (ALL, TokenState.RETIRED):
        known = [one.key[:6] for one in found]
        raise InvalidSetting(
            "--forget", f"knows no token {names!r}. {hint(names, known or [ALL, TokenState.RETIRED])}"
        )
    await queue.write_notes(TOPIC, {one.key: None for one in meant})
    return len(meant)
