"""A run as a person reads it: the sentence first, then the attempts with what was changed and what it cost."""

from datetime import datetime

from rich.text import Text

from supervisor.cli.output import state_text
from supervisor.model.code import changes
from supervisor.model.run import ENDED, Attempt, Run, turns_written
from supervisor.model.verdict import Verdict

_MAX_EVIDENCE = 5
_MAX_NAMES = 5
_FIRST_VERSIONS = ("python", "torch", "transformers", "driver")


def history(run: Run) -> Text:
    """All of it, some twenty lines."""
    lines = [_head(run), *_standing(run)]
    if run.verdict:
        lines += _verdict(run.verdict, goes_on=run.state not in ENDED)
    if run.attempts:
        lines.append(Text())
    before: Attempt | None = None
    for attempt in run.attempts:
        lines += attempt_lines(attempt, before)
        before = attempt
    return Text("\n").join(lines)


def attempt_lines(attempt: Attempt, before: Attempt | None = None) -> list[Text]:
    """One attempt: its line, why it was launched, what was turned, what that came to."""
    line = Text(f"#{attempt.no} ", style="bold")
    line.append(_outcome(attempt), style=_style(attempt))
    line.append(f"  {_span(attempt)}  by {attempt.by}", style="dim")
    lines = [line]
    if attempt.correction and attempt.correction.turns:
        lines.append(Text(f"   turned  {turns_written(attempt.correction.turns)}"))
        lines.append(Text(f"   because {attempt.correction.reason}"))
    elif attempt.why:
        lines.append(Text(f"   because {attempt.why}"))
    because = attempt.correction.reason if attempt.correction else attempt.why
    if attempt.hypothesis and attempt.hypothesis != because:
        lines.append(Text(f"   idea    {attempt.hypothesis}"))
    if attempt.resumed_from is not None:
        lines.append(Text(f"   from    checkpoint of step {attempt.resumed_from}"))
    if attempt.receipt and attempt.receipt.sentence:
        lines.append(Text(f"   receipt {attempt.receipt.sentence}"))
    return lines + _code(attempt, before)


def short_time(moment: datetime | None) -> str:
    """The day and time here, or a dash."""
    return moment.astimezone().strftime("%m-%d %H:%M:%S") if moment else "-"


def _code(attempt: Attempt, before: Attempt | None) -> list[Text]:
    """What it ran: told for the first attempt, and where it is another than before."""
    lines: list[Text] = []
    code = attempt.code
    if before is None and (code.head or code.scripts or code.why):
        at = f"{code.head[:10]}{f' on {code.branch}' if code.branch else ''}" if code.head else "unknown commit"
        differs = f", not committed: {_names([*code.files, *code.untracked])}" if code.dirty else ""
        lines.append(Text(f"   code    {at}{differs}{f' ({code.why})' if code.why else ''}", style="dim"))
    elif before is not None and (change := changes(before.code, code)).changed:
        lines.append(Text(f"   code    changed since #{before.no}: {change.shown}"))
    if attempt.versions and (before is None or before.versions != attempt.versions):
        lines.append(Text(f"   with    {_versions(attempt)}", style="dim"))
    return lines


def _versions(attempt: Attempt) -> str:
    seen = attempt.versions
    parts = [f"{name} {seen.get(name, 'unknown') or 'not installed'}" for name in ("python", "torch", "transformers")]
    parts += [f"{name} {seen[name]}" for name in sorted(seen) if seen[name] and name not in _FIRST_VERSIONS]
    return ", ".join([*parts, f"driver {seen.get('driver', 'unknown')}"])


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _head(run: Run) -> Text:
    head = Text(run.name, style="bold")
    head.append(f"  {run.id}  on {run.node}  ", style="dim")
    return head.append_text(state_text(run.state))


def _standing(run: Run) -> list[Text]:
    lines: list[Text] = []
    if run.reason:
        lines.append(Text(f"reason  {run.reason}"))
    if run.hold:
        until = f" until {short_time(run.hold.until)}" if run.hold.until else ""
        lines.append(Text(f"hold    {run.hold.sentence}{until}", style="yellow"))
    if not run.link.ok:
        lines.append(
            Text(f"link    not seen since {short_time(run.link.last_seen)}: {run.link.error or '?'}", style="yellow")
        )
    progress = run.progress
    if progress.step is not None:
        parts = [f"step {progress.step}" + (f" of {progress.total_steps}" if progress.total_steps else "")]
        if progress.loss is not None:
            parts.append(f"loss {progress.loss:.4g}")
        goes_on = run.state not in ENDED
        if goes_on and progress.rate_per_s is not None:
            parts.append(f"{progress.rate_per_s:.3g} steps/s")
        if goes_on and progress.tokens_per_s is not None:
            parts.append(f"{progress.tokens_per_s:.0f} tokens/s")
        if goes_on and progress.eta_s is not None:
            parts.append(f"{_duration(progress.eta_s)} to go")
        lines.append(Text("at      " + ", ".join(parts)))
    return lines


def _verdict(verdict: Verdict, *, goes_on: bool) -> list[Text]:
    lines = [Text(f"says    {verdict.sentence}"), Text(f"        {verdict.cause}, {verdict.confidence}", style="dim")]
    for evidence in verdict.evidence[:_MAX_EVIDENCE]:
        place = f"{evidence.line}: " if evidence.line is not None else ""
        lines.append(Text(f"        {place}{evidence.text}", style="dim"))
    lines += [Text(f"not     {ruled.cause}: {ruled.why}", style="dim") for ruled in verdict.ruled_out]
    # What has ended waits for nothing that the verdict knew: the run's reason says how it stands.
    if verdict.next and goes_on:
        lines.append(Text(f"next    {verdict.next}", style="bold"))
    return lines


def _outcome(attempt: Attempt) -> str:
    if attempt.state != "ended":
        return attempt.state
    words = attempt.outcome.cause if attempt.outcome else "ended"
    if attempt.exit is None:
        return words
    ending = attempt.exit.signal or f"exit {attempt.exit.code}"
    kills = f", {attempt.exit.oom_kills} killed for memory" if attempt.exit.oom_kills else ""
    return f"{words} ({ending}{kills})"


def _style(attempt: Attempt) -> str:
    if attempt.state != "ended":
        return "cyan"
    return "green" if attempt.outcome and attempt.outcome.cause == "finished" else "red"


def _span(attempt: Attempt) -> str:
    span = short_time(attempt.started_at)
    if attempt.started_at and attempt.ended_at:
        span += f" for {_duration((attempt.ended_at - attempt.started_at).total_seconds())}"
    if attempt.first_step is not None:
        span += f", steps {attempt.first_step}-{attempt.last_step if attempt.last_step is not None else '?'}"
    return span


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
