"""Lines about the outcome of a run: why it is not complete, what changed, and what to type next."""

from typing import Any

import msgspec

from shoal.core.run_outcome import Finding, RunOutcome, sentences
from shoal.core.text import printable, shorten
from shoal.core.values import counted
from shoal.fleet.command_hints import command_on
from shoal.fleet.status.progress import Snapshot

MAX_SHOWN = 5  # sentences
MAX_ITEM = 300  # characters
TOLD = (RunOutcome.COMPLETE, RunOutcome.PARTIAL, RunOutcome.CANCELLED)  # other lines say what became of these


def says_why(snapshot: Snapshot) -> bool:
    """Return whether these lines say why a run was stopped."""
    verdict = snapshot.verdict
    return verdict is not None and verdict.outcome not in TOLD and snapshot.run.reason in verdict.reason


def outcome_lines(snapshot: Snapshot, queue_url: str) -> list[str]:
    """Return the outcome of a run if it needs a word, what was found in its items, and the next commands."""
    verdict, found = snapshot.verdict, sorted(snapshot.findings, key=lambda one: not one.strict)
    lines = []
    if verdict and verdict.outcome not in TOLD:
        reason = "" if verdict.outcome is RunOutcome.SUSPICIOUS else f": {verdict.reason}"
        lines.append(f"Outcome:  {verdict.outcome.words}{reason}.")
    said = [f"Wrong: {text}." for text in sentences(one for one in found if one.strict)]
    said += [f"Warning: {text}." for text in sentences(one for one in found if not one.strict)]
    lines += said[:MAX_SHOWN]
    if len(said) > MAX_SHOWN:
        lines.append(f"Not shown here: {counted(len(said) - MAX_SHOWN, 'more finding')}.")
    if found:
        lines += _example_lines(found[0])
        lines += _next_lines(snapshot, found[0], queue_url)
    return lines


def _example_lines(finding: Finding) -> list[str]:
    items = {"Then": finding.then, "Now": finding.now}
    return [f"{name + ':':<9} {_item(item)}" for name, item in items.items() if item is not None]


def _next_lines(snapshot: Snapshot, finding: Finding, queue_url: str) -> list[str]:
    run_id = snapshot.run.id
    if not finding.since:
        return [f"Fields:   {command_on(queue_url, f'items {run_id} --profile')}"]
    lines = [f"Compare:  {command_on(queue_url, f'compare {finding.since} {run_id}')}"]
    if snapshot.judged and not snapshot.judged.accepted:
        lines.append(f"If this is right: {command_on(queue_url, f'accept {run_id}')}")
    return lines


def _item(item: Any) -> str:
    return printable(shorten(msgspec.json.encode(item).decode(), MAX_ITEM))
