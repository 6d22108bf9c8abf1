"""The trees that real sessions become, and cases that broke for real people.

A tree is written as `tests.otel.support.tree` renders it.
"""

from __future__ import annotations

from opentelemetry.trace import SpanKind

from dsh_otel.ids import first_turn_of
from tests.otel.support import (
    attributes,
    case_log,
    expected,
    ids,
    named,
    only,
    session_log,
    trace_log,
    tree,
)


def test_a_plain_answer_is_a_turn_with_one_step_and_one_attempt() -> None:
    spans = trace_log(session_log("text"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+2391  seq 4-16  end=completed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @2257+133  seq 6-15
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @2257+132  seq 13-14  attempt=1  finish=stop
    """)


def test_each_turn_is_a_tree_of_its_own() -> None:
    spans = trace_log(session_log("multi-turn"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+626  seq 4-16  end=completed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @557+68  seq 6-15
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @557+67  seq 13-14  attempt=1  finish=stop
    invoke_agent dsh 2  @634+31  seq 18-25  end=completed
      * dsh.agent/inbox/spliced 19
      dsh.step 2/1  @648+16  seq 20-24
        chat deepseek-v4-flash 2/1  @648+16  seq 22-23  attempt=1  finish=stop
    invoke_agent dsh 3  @669+43  seq 27-34  end=completed
      * dsh.agent/inbox/spliced 28
      dsh.step 3/1  @687+24  seq 29-33
        chat deepseek-v4-flash 3/1  @687+24  seq 31-32  attempt=1  finish=stop
    """)


def test_calls_follow_the_attempt_that_asked_for_them() -> None:
    spans = trace_log(session_log("tool-success"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+1251  seq 4-42  end=completed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @734+148  seq 6-17
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @734+131  seq 13-14  attempt=1  finish=tool-calls
        execute_tool write 1/1  @867+14  seq 15-16  call=toolu_m_1_0  outcome=ok
      dsh.step 1/2  @910+29  seq 18-23
        chat deepseek-v4-flash 1/2  @910+19  seq 19-20  attempt=1  finish=tool-calls
        execute_tool read 1/2  @930+9  seq 21-22  call=toolu_m_2_0  outcome=ok
      dsh.step 1/3  @962+93  seq 24-29
        chat deepseek-v4-flash 1/3  @962+37  seq 25-26  attempt=1  finish=tool-calls
        execute_tool edit 1/3  @1000+50  seq 27-28  call=toolu_m_3_0  outcome=ok
      dsh.step 1/4  @1075+154  seq 30-37
        chat deepseek-v4-flash 1/4  @1075+16  seq 31-32  attempt=1  finish=tool-calls
        execute_tool bash 1/4  @1091+138  seq 33-36  call=toolu_m_4_0  outcome=ok
          * dsh.job/registered 34
          * dsh.job/settled 35
      dsh.step 1/5  @1241+9  seq 38-41
        chat deepseek-v4-flash 1/5  @1241+9  seq 39-40  attempt=1  finish=stop
    """)


def test_calls_that_run_at_the_same_time_overlap() -> None:
    spans = trace_log(session_log("parallel-tools"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+1317  seq 4-34  end=completed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @563+721  seq 6-29
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @563+77  seq 13-14  attempt=1  finish=tool-calls
        execute_tool bash 1/1  @642+479  seq 15-18  call=toolu_m_1_0  outcome=ok
          * dsh.job/registered 16
          * dsh.job/settled 17
        execute_tool bash 1/1  @1122+127  seq 19-22  call=toolu_m_1_1  outcome=ok
          * dsh.job/registered 20
          * dsh.job/settled 21
        execute_tool read 1/1  @1250+12  seq 23-25  call=toolu_m_1_2  outcome=ok
        execute_tool read 1/1  @1250+13  seq 24-26  call=toolu_m_1_3  outcome=error
          ! ERROR tool failed: FS_NOT_FOUND (missing, replan)
          * dsh.tool.error FS_NOT_FOUND 1
        execute_tool glob 1/1  @1263+20  seq 27-28  call=toolu_m_1_4  outcome=ok
      dsh.step 1/2  @1303+13  seq 30-33
        chat deepseek-v4-flash 1/2  @1303+13  seq 31-32  attempt=1  finish=stop
    """)


def test_retries_are_attempts_of_one_step_and_their_waits_are_span_events() -> None:
    spans = trace_log(session_log("retry-529"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+2658  seq 4-22  end=completed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @565+2093  seq 6-21
        * dsh.session/title 12
        * dsh.llm/retry 14
        * dsh.llm/retry 17
        chat deepseek-v4-flash 1/1  @565+78  seq 13-13  attempt=1  finish=error
          ! ERROR attempt failed: SERVER (transient, retry)
        chat deepseek-v4-flash 1/1  @1644+18  seq 16-16  attempt=2  finish=error
          ! ERROR attempt failed: RATE_LIMIT (transient, retry)
        chat deepseek-v4-flash 1/1  @2605+52  seq 19-20  attempt=3  finish=stop
    """)


def test_crash_repair_is_synthetic_and_a_call_that_never_started_has_no_length() -> None:
    spans = trace_log(session_log("crash"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+867  seq 4-20  end=interrupted  synthetic
      ! ERROR turn failed: EINTR (unknown-outcome, check-first, inferred)
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @741+126  seq 6-19
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @741+56  seq 13-14  attempt=1  finish=tool-calls
        execute_tool bash 1/1  @798+69  seq 15-17  call=toolu_m_1_0  outcome=unknown  synthetic
          ! ERROR tool failed: TOOL_OUTCOME_UNKNOWN (unknown-outcome, check-first)
          * dsh.job/registered 16
          * dsh.tool.error TOOL_OUTCOME_UNKNOWN 1
        execute_tool unknown 1/1  @867+0  seq 18-18  call=toolu_m_1_1  outcome=cancelled  synthetic
          ! TOOL_NOT_STARTED (cancelled, rerun)
          * dsh.tool.error TOOL_NOT_STARTED 1
    invoke_agent dsh 2  @3546+86  seq 23-31  end=completed
      * dsh.agent/inbox/spliced 24
      dsh.step 2/1  @3579+52  seq 25-30
        chat deepseek-v4-flash 2/1  @3579+51  seq 28-29  attempt=1  finish=stop
    """)


def test_what_a_dead_process_left_open_ends_with_its_last_event() -> None:
    spans = trace_log(session_log("crash-stream.before-resume"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+455  seq 4-?  unclosed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @350+105  seq 6-?  unclosed
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @350+105  seq 13-?  attempt=1  unclosed
    """)


def test_failed_calls_name_their_code_family_and_route() -> None:
    spans = trace_log(session_log("fs-errors"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+975  seq 4-76  end=completed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @539+82  seq 6-17
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @539+68  seq 13-14  attempt=1  finish=tool-calls
        execute_tool read 1/1  @609+12  seq 15-16  call=toolu_m_1_0  outcome=error
          ! ERROR tool failed: FS_NOT_FOUND (missing, replan)
          * dsh.tool.error FS_NOT_FOUND 1
      dsh.step 1/2  @630+13  seq 18-23
        chat deepseek-v4-flash 1/2  @630+9  seq 19-20  attempt=1  finish=tool-calls
        execute_tool read 1/2  @640+3  seq 21-22  call=toolu_m_2_0  outcome=error
          ! ERROR tool failed: FS_NOT_REGULAR_FILE (bad-args, self-correct)
          * dsh.tool.error FS_NOT_REGULAR_FILE 1
      dsh.step 1/3  @651+12  seq 24-29
        chat deepseek-v4-flash 1/3  @651+7  seq 25-26  attempt=1  finish=tool-calls
        execute_tool write 1/3  @658+5  seq 27-28  call=toolu_m_3_0  outcome=error
          ! ERROR tool failed: FS_SANDBOX_DENIED (policy, escalate)
          * dsh.tool.error FS_SANDBOX_DENIED 1
      dsh.step 1/4  @676+14  seq 30-35
        chat deepseek-v4-flash 1/4  @676+10  seq 31-32  attempt=1  finish=tool-calls
        execute_tool edit 1/4  @686+4  seq 33-34  call=toolu_m_4_0  outcome=error
          ! ERROR tool failed: FS_NOT_OBSERVED (policy, escalate)
          * dsh.tool.error FS_NOT_OBSERVED 1
      dsh.step 1/5  @697+15  seq 36-41
        chat deepseek-v4-flash 1/5  @697+9  seq 37-38  attempt=1  finish=tool-calls
        execute_tool read 1/5  @707+4  seq 39-40  call=toolu_m_5_0  outcome=ok
      dsh.step 1/6  @720+13  seq 42-47
        chat deepseek-v4-flash 1/6  @720+8  seq 43-44  attempt=1  finish=tool-calls
        execute_tool edit 1/6  @728+5  seq 45-46  call=toolu_m_6_0  outcome=error
          ! ERROR tool failed: FS_EDIT_NOT_FOUND (bad-args, self-correct)
          * dsh.tool.error FS_EDIT_NOT_FOUND 1
      dsh.step 1/7  @739+11  seq 48-53
        chat deepseek-v4-flash 1/7  @739+7  seq 49-50  attempt=1  finish=tool-calls
        execute_tool read 1/7  @747+3  seq 51-52  call=toolu_m_7_0  outcome=error
          ! ERROR tool failed: FS_NOT_TEXT (bad-args, self-correct)
          * dsh.tool.error FS_NOT_TEXT 1
      dsh.step 1/8  @756+11  seq 54-59
        chat deepseek-v4-flash 1/8  @756+7  seq 55-56  attempt=1  finish=tool-calls
        execute_tool write 1/8  @764+3  seq 57-58  call=toolu_m_8_0  outcome=error
          ! ERROR tool failed: FS_NOT_FOUND (missing, replan)
          * dsh.tool.error FS_NOT_FOUND 1
      dsh.step 1/9  @775+108  seq 60-65
        chat deepseek-v4-flash 1/9  @775+7  seq 61-62  attempt=1  finish=tool-calls
        execute_tool glob 1/9  @783+99  seq 63-64  call=toolu_m_9_0  outcome=error
          ! ERROR tool failed: SEARCH_FAILED (missing, replan, inferred)
          * dsh.tool.error SEARCH_FAILED 1
      dsh.step 1/10  @901+44  seq 66-71
        chat deepseek-v4-flash 1/10  @901+9  seq 67-68  attempt=1  finish=tool-calls
        execute_tool grep 1/10  @910+34  seq 69-70  call=toolu_m_10_0  outcome=error
          ! ERROR tool failed: SEARCH_INVALID_PATTERN (bad-args, self-correct)
          * dsh.tool.error SEARCH_INVALID_PATTERN 1
      dsh.step 1/11  @958+17  seq 72-75
        chat deepseek-v4-flash 1/11  @958+16  seq 73-74  attempt=1  finish=stop
    """)


def test_a_code_that_stands_only_in_the_text_is_inferred() -> None:
    spans = trace_log(session_log("denied-read"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+858  seq 4-34  end=completed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @648+61  seq 6-17
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @648+50  seq 13-14  attempt=1  finish=tool-calls
        execute_tool read 1/1  @700+8  seq 15-16  call=toolu_m_1_0  outcome=error  findings=1
          ! ERROR tool failed: EACCES (denied, ask, inferred)
          * dsh.tool.error EACCES 1
          * dsh.violation advice tool.error-uncoded 16
      dsh.step 1/2  @722+20  seq 18-23
        chat deepseek-v4-flash 1/2  @722+11  seq 19-20  attempt=1  finish=tool-calls
        execute_tool write 1/2  @734+8  seq 21-22  call=toolu_m_2_0  outcome=error  findings=1
          ! ERROR tool failed: EACCES (denied, ask, inferred)
          * dsh.tool.error EACCES 1
          * dsh.violation advice tool.error-uncoded 22
      dsh.step 1/3  @752+74  seq 24-29
        chat deepseek-v4-flash 1/3  @752+15  seq 25-26  attempt=1  finish=tool-calls
        execute_tool glob 1/3  @767+58  seq 27-28  call=toolu_m_3_0  outcome=error
          ! ERROR tool failed: SEARCH_FAILED (denied, ask, inferred)
          * dsh.tool.error SEARCH_FAILED 1
      dsh.step 1/4  @846+11  seq 30-33
        chat deepseek-v4-flash 1/4  @846+11  seq 31-32  attempt=1  finish=stop
    """)


def test_an_approval_is_noted_on_the_call_that_waits_for_it() -> None:
    spans = trace_log(session_log("approval"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+453  seq 4-32  end=completed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @334+66  seq 6-19
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @334+55  seq 13-14  attempt=1  finish=tool-calls
        execute_tool write 1/1  @391+9  seq 15-18  call=toolu_m_1_0  outcome=error  findings=1
          ! ERROR tool failed: APPROVAL_UNAVAILABLE (policy, escalate, inferred)
          * dsh.approval/asked 16
          * dsh.approval/decided 17
          * dsh.tool.error APPROVAL_UNAVAILABLE 1
          * dsh.violation advice tool.error-uncoded 18
      dsh.step 1/2  @412+18  seq 20-27
        chat deepseek-v4-flash 1/2  @412+12  seq 21-22  attempt=1  finish=tool-calls
        execute_tool bash 1/2  @425+5  seq 23-26  call=toolu_m_2_0  outcome=error  findings=1
          ! ERROR tool failed: APPROVAL_UNAVAILABLE (policy, escalate, inferred)
          * dsh.approval/asked 24
          * dsh.approval/decided 25
          * dsh.tool.error APPROVAL_UNAVAILABLE 1
          * dsh.violation advice tool.error-uncoded 26
      dsh.step 1/3  @440+12  seq 28-31
        chat deepseek-v4-flash 1/3  @440+12  seq 29-30  attempt=1  finish=stop
    """)


def test_compactions_are_noted_on_the_turn_they_interrupt() -> None:
    spans = trace_log(session_log("compaction"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+415  seq 4-16  end=completed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @342+72  seq 6-15
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @342+71  seq 13-14  attempt=1  finish=stop
    invoke_agent dsh 2  @424+103  seq 18-37  end=completed
      * dsh.agent/inbox/spliced 19
      * dsh.compaction/start 20
      * dsh.compaction/end 24
      * dsh.compaction/start 25
      * dsh.compaction/end 29
      dsh.step 2/1  @504+23  seq 30-36
        chat deepseek-v4-flash 2/1  @504+22  seq 34-35  attempt=1  finish=stop
    invoke_agent dsh 3  @537+64  seq 39-55  end=completed
      * dsh.agent/inbox/spliced 40
      * dsh.compaction/start 41
      * dsh.compaction/end 45
      * dsh.compaction/start 46
      * dsh.compaction/end 48
      dsh.step 3/1  @579+21  seq 49-54
        chat deepseek-v4-flash 3/1  @579+21  seq 52-53  attempt=1  finish=stop
    invoke_agent dsh 4  @605+39  seq 57-67  end=completed
      * dsh.agent/inbox/spliced 58
      * dsh.compaction/start 59
      * dsh.compaction/end 61
      dsh.step 4/1  @631+13  seq 62-66
        chat deepseek-v4-flash 4/1  @631+12  seq 64-65  attempt=1  finish=stop
    """)


def test_a_packed_log_of_august_gives_the_same_kind_of_tree() -> None:
    spans = trace_log(session_log("old-0.1.1rc1--mixed"))
    assert tree(spans) == expected("""
    invoke_agent dsh 1  @0+816  seq 1-105  end=completed
      * dsh.agent/inbox/spliced 2
      dsh.step 1/1  @23+132  seq 3-42
        * dsh.session/title 5
        chat deepseek-v4-flash 1/1  @23+114  seq 8-39  attempt=1  finish=tool-calls
        execute_tool write 1/1  @144+11  seq 40-41  call=call_m_1_0  outcome=ok
      dsh.step 1/2  @161+36  seq 43-74
        chat deepseek-v4-flash 1/2  @161+10  seq 44-66  attempt=1  finish=tool-calls
        execute_tool read 1/2  @172+4  seq 67-68  call=call_m_2_0  outcome=error
          ! ERROR tool failed: FS_NOT_FOUND (missing, replan)
          * dsh.tool.error FS_NOT_FOUND 1
        execute_tool bash 1/2  @176+15  seq 69-70  call=call_m_2_1  outcome=ok
        execute_tool todo_write 1/2  @192+5  seq 71-73  call=call_m_2_2  outcome=ok
          * dsh.todo/write 72
      dsh.step 1/3  @203+31  seq 75-91
        chat deepseek-v4-flash 1/3  @203+8  seq 76-86  attempt=1  finish=tool-calls
        execute_tool read 1/3  @212+5  seq 87-88  call=call_m_3_0  outcome=error
          ! ERROR tool failed: INVALID_ARGS (bad-args, self-correct)
          * dsh.tool.error INVALID_ARGS 1
        execute_tool nonesuch 1/3  @217+17  seq 89-90  call=call_m_3_1  outcome=error
          ! ERROR tool failed: UNKNOWN_TOOL (missing, replan)
          * dsh.tool.error UNKNOWN_TOOL 1
      dsh.step 1/4  @251+564  seq 92-104
        * dsh.llm/retry 94
        chat deepseek-v4-flash 1/4  @251+7  seq 93-93  attempt=1  finish=error
          ! ERROR attempt failed: SERVER (transient, retry)
        chat deepseek-v4-flash 1/4  @802+13  seq 96-103  attempt=2  finish=stop
    invoke_agent dsh 2  @819+13  seq 107-121  end=completed
      * dsh.agent/inbox/spliced 108
      dsh.step 2/1  @825+7  seq 109-120
        chat deepseek-v4-flash 2/1  @825+6  seq 111-119  attempt=1  finish=stop
    invoke_agent dsh 3  @833+12  seq 123-129  end=error
      ! ERROR turn failed: INVALID_REQUEST (bad-args, self-correct)
      * dsh.agent/inbox/spliced 124
      dsh.step 3/1  @838+7  seq 125-128
        chat deepseek-v4-flash 3/1  @838+6  seq 127-127  attempt=1  finish=error
          ! ERROR attempt failed: INVALID_REQUEST (bad-args, self-correct)
    """)


def test_a_turn_that_overlaps_closes_the_one_before_at_its_last_event() -> None:
    spans = trace_log(case_log("03"))
    assert tree(spans) == expected("""
    invoke_agent dsh 0  @0+160  seq 0-?  unclosed
      dsh.step 0/0  @80+80  seq 2-?  unclosed
        chat 0/0  @80+40  seq 3-3  attempt=1
        execute_tool bash 0/0  @160+0  seq 4-?  call=c1  outcome=unanswered  unclosed
    invoke_agent dsh 1  @600200+200  seq 5-10  end=completed  findings=1
      ! ERROR contract violated
      * dsh.violation violation turn.overlap 5
      dsh.step 1/0  @600280+80  seq 7-9
        chat 1/0  @600280+40  seq 8-8  attempt=1
    """)


def test_events_written_again_after_their_turn_have_no_length_and_no_parent() -> None:
    spans = trace_log(case_log("06"))
    assert tree(spans) == expected("""
    invoke_agent dsh 0  @0+280  seq 0-7  end=completed
      dsh.step 0/0  @80+160  seq 2-6
        chat 0/0  @80+40  seq 3-3  attempt=1
        execute_tool read 0/0  @160+40  seq 4-5  call=c1  outcome=ok
    execute_tool unknown 0/0  @360+0  seq 5-5  call=c1  outcome=ok  findings=1  synthetic
      ! ERROR contract violated
      * dsh.violation violation seq.regressed 5
    dsh.orphan 0/0  @400+0  seq 6-6  synthetic
    dsh.orphan 0  @440+0  seq 7-7  synthetic
    invoke_agent dsh 1  @480+200  seq 8-13  end=completed
      dsh.step 1/0  @560+80  seq 10-12
        chat 1/0  @560+40  seq 11-11  attempt=1
    """)


def test_a_result_before_its_call_is_a_span_of_its_own_and_the_call_stays_unanswered() -> None:
    spans = trace_log(case_log("11"))
    assert tree(spans) == expected("""
    invoke_agent dsh 0  @0+280  seq 0-7  end=completed
      dsh.step 0/0  @80+160  seq 2-6
        chat 0/0  @80+40  seq 3-3  attempt=1
        execute_tool unknown 0/0  @160+0  seq 4-4  call=c1  outcome=ok  synthetic
        execute_tool lookup 0/0  @200+80  seq 5-?  call=c1  outcome=unanswered  findings=1  unclosed
          ! ERROR contract violated
          * dsh.violation violation tool.result-before-call 4
    """)


def test_a_live_writer_beside_crash_repair_only_adds_spans_without_length() -> None:
    spans = trace_log(case_log("16"))
    assert tree(spans) == expected("""
    invoke_agent dsh 0  @0+280  seq 0-7  end=interrupted  synthetic
      ! ERROR turn failed: EINTR (unknown-outcome, check-first, inferred)
      dsh.step 0/0  @80+160  seq 2-6
        chat 0/0  @80+40  seq 3-3  attempt=1
        execute_tool bash 0/0  @160+40  seq 4-5  call=c1  outcome=unknown  synthetic
          ! ERROR tool failed: TOOL_OUTCOME_UNKNOWN (unknown-outcome, check-first)
          * dsh.tool.error TOOL_OUTCOME_UNKNOWN 1
    execute_tool unknown 0/0  @320+0  seq 5-5  call=c1  outcome=ok  findings=1  synthetic
      ! ERROR contract violated
      * dsh.violation violation seq.regressed 5
    dsh.orphan 0/0  @360+0  seq 6-6  synthetic
    dsh.orphan 0  @400+0  seq 7-7  synthetic
    """)


def test_a_cancelled_turn_takes_its_open_step_and_call_with_it() -> None:
    spans = trace_log(case_log("29"))
    assert tree(spans) == expected("""
    invoke_agent dsh 0  @0+200  seq 0-5  end=aborted  findings=1
      ! ERROR contract violated
      * dsh.violation violation turn.end-open-step 5
      dsh.step 0/0  @80+120  seq 2-?  unclosed
        chat 0/0  @80+40  seq 3-3  attempt=1
        execute_tool bash 0/0  @160+40  seq 4-?  call=c1  outcome=unanswered  unclosed
    invoke_agent dsh 1  @240+200  seq 6-11  end=completed
      dsh.step 1/0  @320+80  seq 8-10
        chat 1/0  @320+40  seq 9-9  attempt=1
    """)


def test_a_call_that_starts_a_subagent_links_to_the_first_turn_of_the_child() -> None:
    parent = trace_log(session_log("subagent"))
    child = trace_log(session_log("subagent.child1"))
    assert tree(parent) == expected("""
    invoke_agent dsh 1  @0+408  seq 4-23  end=completed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @307+78  seq 6-18
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @307+51  seq 13-14  attempt=1  finish=tool-calls
        execute_tool subagent 1/1  @360+25  seq 15-17  call=toolu_m_1_0  outcome=ok
      dsh.step 1/2  @398+10  seq 19-22
        chat deepseek-v4-flash 1/2  @398+10  seq 20-21  attempt=1  finish=stop
    invoke_agent dsh 2  @508+23  seq 25-32  end=completed
      * dsh.agent/inbox/spliced 26
      dsh.step 2/1  @521+9  seq 27-31
        chat deepseek-v4-flash 2/1  @521+9  seq 29-30  attempt=1  finish=stop
    """)
    assert tree(child) == expected("""
    invoke_agent dsh 1  @0+122  seq 4-22  end=completed
      * dsh.agent/inbox/spliced 5
      dsh.step 1/1  @36+61  seq 6-17
        * dsh.session/title 12
        chat deepseek-v4-flash 1/1  @36+15  seq 13-14  attempt=1  finish=tool-calls
        execute_tool glob 1/1  @51+46  seq 15-16  call=toolu_CHILDT_1_0  outcome=ok
      dsh.step 1/2  @112+10  seq 18-21
        chat deepseek-v4-flash 1/2  @112+9  seq 19-20  attempt=1  finish=stop
    """)
    call = only(parent, "execute_tool subagent")
    (link,) = call.links
    first_turn = only(child, "invoke_agent")
    assert (link.context.trace_id, link.context.span_id) == ids(first_turn)
    assert ids(first_turn) == first_turn_of("150bf75c-73b7-4cb8-8bbf-39e1ed4cdaf4")
    assert attributes(first_turn)["dsh.session.parent_id"] == "sub-1"
    assert attributes(first_turn)["dsh.session.depth"] == 1


def test_all_there_is_to_know_of_a_plain_answer() -> None:
    turn, step, attempt = (
        only(trace_log(session_log("text")), name) for name in ("invoke_agent", "dsh.step", "chat")
    )
    assert attributes(turn) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "dsh",
        "gen_ai.conversation.id": "text-1",
        "session.id": "text-1",
        "dsh.turn": 1,
        "dsh.contract": "v4",
        "dsh.harness.format": "v4",
        "dsh.session.depth": 0,
        "dsh.queue.wait": 0.002,
        "dsh.turn.end_reason": "completed",
        "dsh.seq.start": 4,
        "dsh.seq.end": 16,
    }
    assert attributes(step) == {
        "gen_ai.conversation.id": "text-1",
        "dsh.turn": 1,
        "dsh.step": 1,
        "dsh.seq.start": 6,
        "dsh.seq.end": 15,
    }
    assert attributes(attempt) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": "text-1",
        "gen_ai.provider.name": "deepseek-official",
        "gen_ai.request.model": "deepseek-v4-flash",
        "gen_ai.response.model": "deepseek-v4-flash",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": 0.076,
        "gen_ai.usage.input_tokens": 164,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 64,
        "dsh.turn": 1,
        "dsh.step": 1,
        "dsh.attempt": 1,
        "dsh.seq.start": 13,
        "dsh.seq.end": 14,
    }


def test_all_there_is_to_know_of_a_call() -> None:
    call = only(trace_log(session_log("tool-success")), "execute_tool write")
    assert attributes(call) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": "tools-1",
        "gen_ai.tool.name": "write",
        "gen_ai.tool.call.id": "toolu_m_1_0",
        "gen_ai.tool.type": "function",
        "dsh.tool.outcome": "ok",
        "dsh.turn": 1,
        "dsh.step": 1,
        "dsh.seq.start": 15,
        "dsh.seq.end": 16,
    }


def test_only_model_requests_leave_the_process() -> None:
    spans = trace_log(session_log("tool-success"))
    assert {span.name: span.kind for span in spans} == {
        "invoke_agent dsh": SpanKind.INTERNAL,
        "dsh.step": SpanKind.INTERNAL,
        "chat deepseek-v4-flash": SpanKind.CLIENT,
        "execute_tool write": SpanKind.INTERNAL,
        "execute_tool read": SpanKind.INTERNAL,
        "execute_tool edit": SpanKind.INTERNAL,
        "execute_tool bash": SpanKind.INTERNAL,
    }


def test_token_counts_stand_on_attempts_alone() -> None:
    for span in trace_log(session_log("retry-529")):
        counted = any(name.startswith("gen_ai.usage.") for name in attributes(span))
        assert counted == (attributes(span).get("dsh.attempt") == 3), span.name


def test_the_first_chunk_of_a_retried_attempt_is_timed_from_the_start_of_the_retry() -> None:
    waits = [
        attributes(span).get("gen_ai.response.time_to_first_chunk")
        for span in named(trace_log(session_log("retry-529")), "chat")
    ]
    assert waits == [None, None, 0.033]
