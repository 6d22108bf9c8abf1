"""``dsh-otel shrink``: the least log that still gives the same finding."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from dsh_otel.cli.choices import ContractChoice, Source
from dsh_otel.cli.complete import complete_patterns
from dsh_otel.cli.exits import CannotTellError, ExitCode, exit_code_lines
from dsh_otel.cli.quiet import Quiet, is_quiet
from dsh_otel.cli.selection import (
    ChosenContract,
    FromSource,
    IsFinal,
    Output,
    Presets,
    Severities,
)

MAX_CHECKS: Final = 20_000
MAX_EVENTS: Final = 1_000_000

EPILOG: Final = f"""
\b
What is left out, as long as the finding stays:
  first what comes behind it, then turns, steps and events
  then keys and items of what is left; texts of more than 16 characters become short ones
What is left is numbered anew from the beginning, unless the finding is about the numbers.

\b
Examples:
  dsh-otel shrink session.v4.jsonl.zstd                        the least log
  dsh-otel shrink session.jsonl --rules 'tool.*' -o bug.jsonl  of another finding, to a file
  dsh-otel shrink session.jsonl --pytest > test_bug.py         a test that is ready to run

{exit_code_lines("no finding, a log that cannot be read or is too large, or wrong usage")}
"""


def shrink(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", hidden=True)],
    rules: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Keep the first finding of these rules, advice too: a glob on the id, or "
            "owner:NAME. Repeatable. By default the first violation or damage counts, or else the "
            "first advice.",
            autocompletion=complete_patterns,
            show_default=False,
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", hidden=True, autocompletion=complete_patterns),
    ] = None,
    contract: ChosenContract = ContractChoice.AUTO,
    severity: Severities = None,
    preset: Presets = None,
    source: FromSource = Source.LOG,
    final: IsFinal = False,
    keep_content: Annotated[
        bool,
        typer.Option(
            "--keep-content", help="Leave the insides of events as they are, private texts too."
        ),
    ] = False,
    pytest: Annotated[
        bool, typer.Option("--pytest", help="Print a test module with the log in it.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document with the log in it.")
    ] = False,
    output: Output = None,
    max_checks: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Most parts of the log to check; to cut what comes behind the finding, and to "
            "replace texts, may take more.",
        ),
    ] = MAX_CHECKS,
    max_events: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Most events of the log; all of them are kept in memory."
        ),
    ] = MAX_EVENTS,
    quiet: Quiet = False,
) -> None:
    """Shrink a log to the least that still gives the same first finding.

    FILE is one log, of any dsh generation, plain or zstd; - is standard input. The same finding is
    one of the same rule, with no violation or damage before it; no event of what is printed can be
    left out.

    Ctrl-C prints the least log found so far.
    """
    from dataclasses import replace

    from dsh_core.contract.run import SourceKind
    from dsh_core.events import Contract
    from dsh_core.shrink import Question, Stopped
    from dsh_otel.cli import shrinking
    from dsh_otel.cli.as_test import as_test
    from dsh_otel.cli.needs import idle, told
    from dsh_otel.cli.ruling import choose_rules

    if pytest and json:
        raise typer.BadParameter("--pytest and --json exclude each other")
    log = shrinking.choose_log(file, output)
    ruling = choose_rules((), (), severity or (), preset or ())
    wanted = [*(rules or ()), *(rule or ())]
    held_to = None if contract is ContractChoice.AUTO else Contract(contract)
    kept = shrinking.choose_wanted(ruling.catalogue, wanted)
    if kept is not None:
        chosen = replace(ruling, chosen=kept)
        unable = idle(chosen, contract=held_to, source=SourceKind(source), final=final)
        if len(unable) == len(kept):
            raise CannotTellError(told(unable, kept, wanted))
    options = {
        "--rules": wanted,
        "--contract": [contract.value] * (contract is not ContractChoice.AUTO),
        "--severity": severity or (),
        "--preset": preset or (),
        "--source": [source.value] * (source is not Source.LOG),
    }
    flags = {"--final": final, "--keep-content": keep_content, "--pytest": pytest}
    work = shrinking.Shrinking(
        log=log,
        question=Question(
            contract=held_to,
            wanted=kept,
            final=final,
            catalogue=ruling.catalogue,
            presets=ruling.presets,
            source=SourceKind(source),
        ),
        options=[
            *(word for name, values in options.items() for one in values for word in (name, one)),
            *(flag for flag, given in flags.items() if given),
        ],
        keep_content=keep_content,
        max_checks=max_checks,
        max_events=max_events,
        quiet=is_quiet(context, quiet=quiet),
    )
    found = work.run()
    if pytest:
        shrinking.write_text(as_test(found, work.command), output)
    elif json:
        shrinking.write_text(shrinking.as_json(found, work.log.path), output)
    else:
        shrinking.write_log(found.lines, output)
    if not work.quiet:
        shrinking.tell(found, output)
    interrupted = found.stopped is Stopped.INTERRUPTED
    raise typer.Exit(ExitCode.INTERRUPTED if interrupted else ExitCode.OK)
