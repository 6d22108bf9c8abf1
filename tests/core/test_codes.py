"""Tests of codes, families and routes."""

from __future__ import annotations

import copy
import dataclasses
import errno
import os
import pickle
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dsh_core import _code_table, codes
from dsh_core.codes import (
    ADVICE,
    CODES,
    Advice,
    Classification,
    CodeInfo,
    Family,
    Retryable,
    Route,
    Where,
    classify,
    infer_code,
    is_permanent,
    lookup,
)


def listed(text: str) -> list[str]:
    """Split a list of codes; with a line for each it would be longer than the tests."""
    return text.split()


# Every spelling the harness uses, by the place it stands in. Written out once more on purpose: the
# table must not be able to lose a code unseen.
IN_LOG = listed("""
NO_ADAPTER AUTH RATE_LIMIT INVALID_REQUEST SERVER HTTP_404 EMPTY_RESPONSE STREAM_CLOSED
MALFORMED_RESPONSE UNSUPPORTED PI_AI_ERROR CONTENT_FILTER INSUFFICIENT_SYSTEM_RESOURCE ABORTED
INVALID_ARGS INVARIANT UNKNOWN INACTIVE_EFFECT TIMEOUT TRANSPORT INVALID_RESPONSE
CONTEXT_WINDOW_EXCEEDED QUOTA ACCOUNT_QUOTA MISSING_CREDENTIAL INVALID_CREDENTIAL
ACCOUNT_SIGN_IN_REQUIRED ACCOUNT_TOKEN_INVALID ACCOUNT_SIGNED_OUT CLIENT_UPGRADE_REQUIRED
MODEL_UNSUPPORTED UNKNOWN_MODEL UNSUPPORTED_CONTENT UNSUPPORTED_OPTION UNSUPPORTED_REASONING_EFFORT
INVALID_REPLAY_STATE INVALID_PREPARED_CALL IMAGE_OFFLOAD_REQUIRED REQUEST_EXTENSION FILES_API
MAX_TOKENS UNKNOWN_TOOL INVALID_TOOL_OUTPUT UNSUPPORTED_SCHEMA CODE_RUN_FAILED
ABORTED_BEFORE_DISPATCH TOOL_TIMEOUT TOOL_NOT_STARTED TOOL_OUTCOME_UNKNOWN FS_NOT_FOUND
FS_NOT_DIRECTORY FS_NOT_REGULAR_FILE FS_NOT_TEXT FS_TOO_LARGE FS_PERMISSION_DENIED FS_SANDBOX_DENIED
FS_IO_ERROR FS_STALE_VERSION FS_NOT_OBSERVED FS_AMBIGUOUS_EDIT FS_EDIT_NOT_FOUND FS_ABORTED
SEARCH_FAILED SEARCH_INVALID_PATTERN SEARCH_RAW_OUTPUT_OVERFLOW SEARCH_ABORTED SANDBOX_UNAVAILABLE
WEB_INVALID_URL WEB_BLOCKED_URL WEB_REDIRECT_BLOCKED WEB_FETCH_TIMEOUT WEB_FETCH_TOO_LARGE
WEB_UNSUPPORTED_CONTENT_TYPE WEB_PROVIDER_ERROR WEB_PROVIDER_CREDENTIAL_MISSING
WEB_PROVIDER_UNAVAILABLE WEB_PROVIDER_CONFIGURED_MISSING WEB_PROVIDER_CONFIGURED_UNAVAILABLE
WEB_PROVIDER_AMBIGUOUS WEB_DUPLICATE_PROVIDER WEB_ABORTED NO_PROVIDER DUPLICATE_PROVIDER
UNSUPPORTED_CAPABILITY DUPLICATE_CHILD UNAUTHORIZED NOT_RESUMABLE CONTINUATION_UNAVAILABLE
PARENT_UNAVAILABLE PERSISTENCE_UNAVAILABLE ACTIVATION_CLOSING ACTIVATION_SETUP_REVOKED
ACTIVATION_SETUP_RELEASE_FAILED ACTIVATION_TEARDOWN_FAILED SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE
SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE CANCELLED ACTIVATION_LIMIT_REACHED INPUT_CLOSED
NOT_CONTINUABLE PRESET_UNAVAILABLE SUBAGENT_CONTROL_QUERY_UNAVAILABLE SCRIPT_PARSE META_INVALID
INVALID_ARGUMENT AGENT_CAP ITEM_CAP AGENT_START AGENT_RESULT RESULT_UNSERIALIZABLE ASK_ABORTED
ASK_CANCELLED BAD_INTENT CALLER_NOT_LIVE DELEGATED_CALLER EMPTY_QUESTIONS ASK_TIMED_OUT BAD_ANSWER
BAD_TIMEOUT DUPLICATE_WAIT REPLY_QUEUED GOAL_AGENT_NOT_LIVE GOAL_ALREADY_EXISTS
GOAL_INVALID_BLOCK_REASON GOAL_INVALID_EDIT GOAL_INVALID_MAX_ROUNDS GOAL_INVALID_OBJECTIVE
GOAL_INVALID_TRANSITION GOAL_NOT_FOUND GOAL_STALE_REVISION GOAL_TOOL_AGENT_REQUIRED
GOAL_TOOL_AUTHORITY_REQUIRED GOAL_TOOL_BLOCK_THRESHOLD GOAL_TOOL_DRIVER_REQUIRED
GOAL_TOOL_INVALID_UPDATE GOAL_TOOL_RESUME_PAUSED model-reported round-limit queue-failed
prompt-rejected LSP_UNAVAILABLE LSP_CONFLICT LSP_INVALID_PROVIDER LSP_DISPOSED
LSP_MALFORMED_RESPONSE LSP_UNSUPPORTED_OPERATION LSP_WORKSPACE_REQUIRED TEAM_DISPOSED
TEAM_DISPOSAL_TIMEOUT TEAM_INVALID_ARGUMENT TEAM_INVALID_CONFIG TEAM_INVALID_MEMBER_NAME
TEAM_INVALID_TARGET TEAM_INVALID_TIMEOUT TEAM_INVALID_WRITE_SCOPE TEAM_LEAD_REQUIRED
TEAM_MAILBOX_FULL TEAM_MEMBER_LIMIT TEAM_MEMBER_NAME_TAKEN TEAM_MEMBER_NOT_FOUND
TEAM_MESSAGE_TOO_LARGE TEAM_NOT_MEMBER TEAM_PROVISIONING_CONFLICT TEAM_SELF_MESSAGE
TEAM_TASK_ALREADY_CLAIMED TEAM_TASK_BLOCKED TEAM_TASK_DELETED TEAM_TASK_DEPENDENCY_CYCLE
TEAM_TASK_HAS_DEPENDENTS TEAM_TASK_INVALID_TRANSITION TEAM_TASK_LIMIT TEAM_TASK_NOT_FOUND
TEAM_TASK_STALE_REVISION TEAM_TASK_UNAUTHORIZED TEAM_WAIT_ABORTED SESSION_QUERY_ABORTED
SESSION_QUERY_CORRUPT_SESSION SESSION_QUERY_EVENT_NOT_FOUND SESSION_QUERY_INDEX_FAILED
SESSION_QUERY_INVALID_CONFIG SESSION_QUERY_INVALID_CURSOR SESSION_QUERY_INVALID_FILTER
SESSION_QUERY_INVALID_LIMIT SESSION_QUERY_INVALID_LINEAGE SESSION_QUERY_INVALID_QUERY
SESSION_QUERY_INVALID_SURFACE SESSION_QUERY_INVALID_WINDOW SESSION_QUERY_PERSISTENCE_FAILED
SESSION_QUERY_SEARCH_DISABLED SESSION_QUERY_SESSION_NOT_FOUND SESSION_QUERY_SOURCE_CONFLICT
SESSION_QUERY_STALE_CURSOR SESSION_QUERY_TOOL_FAILED SESSION_QUERY_TOOL_MISSING_AGENT
SESSION_QUERY_TOOL_NO_CURRENT_STEP SESSION_QUERY_TOOL_UNAUTHORIZED
""")
IN_TEXT = listed("""
DUPLICATE_BACKEND DUPLICATE_NAME FOREIGN_SESSION NO_BACKEND NO_SESSION OWNER_NOT_LIVE SEND_ACTIVE
SERVICE_DISPOSING ATTACHMENT_NOT_FOUND ATTACHMENT_CORRUPT ATTACHMENT_READ_FAILED
ATTACHMENT_WRITE_FAILED ATTACHMENT_PROJECTION_UNSUPPORTED ATTACHMENT_FILES_UNSUPPORTED
INVALID_ATTACHMENT_REF INVALID_IMAGE INVALID_IMAGE_BASE64 INVALID_FILE_BASE64 IMAGE_TOO_LARGE
IMAGES_TOO_LARGE TOO_MANY_IMAGES IMAGE_DIMENSION_TOO_LARGE IMAGE_TOO_MANY_PIXELS IMAGE_TYPE_MISMATCH
UNSUPPORTED_IMAGE_TYPE SESSION_REFERENCE_BUDGET_EXCEEDED SESSION_REFERENCE_CANCELLED
SESSION_REFERENCE_INVALID_CONFIG SESSION_REFERENCE_INVALID_REFERENCE SESSION_REFERENCE_READ_FAILED
SESSION_REFERENCE_SELF_REFERENCE SESSION_REFERENCE_TOO_MANY corrupt_schedule_log invalid_prompt
invalid_selector invalid_rule invalid_time_zone not_future time_out_of_range frequency_too_high
persistence_uncertain schedule_not_found internal_error busy cancelled changed summary commit
persistence QUEUE_EDIT_NON_TEXT ATTACHMENT_NOT_REFERENCED MODEL_DOES_NOT_SUPPORT_IMAGES
SUBAGENT_IMAGE_UNSUPPORTED
""")
IN_HOST = listed("""
DUPLICATE_ADAPTER DUPLICATE_DIRECTORY DUPLICATE_DISCOVERY INVALID_ADAPTER INVALID_CATALOG
INVALID_DIRECTORY INVALID_DISCOVERY INVALID_MODEL_CONTEXT INVALID_MODEL_INFO
INVALID_MODEL_MAX_TOKENS INVALID_MODEL_REASONING REGISTRATION_DISPOSED NO_DISCOVERY DISCOVERY_FAILED
DISCOVERY_UNSUPPORTED NO_CREDENTIAL_STORE UNSTORABLE_PROVIDER_ID MODEL_LISTING_TIMEOUT BASH_TIMEOUT
PERSISTENT_BASH_TIMEOUT PERSISTENT_PWSH_TIMEOUT LLM_STREAM_IDLE_TIMEOUT MESSAGES_IDLE
SESSION_TITLE_TIMEOUT TASK_WAIT_TIMEOUT LSP_SHUTDOWN LSP_CANCEL_GRACE DEEPSEEK_FILES_API_TIMEOUT
ASK_MISSING_AGENT SESSION_NOT_FOUND SESSION_NOT_LIVE SESSION_ALREADY_EXISTS INVALID_BOUNDARY
OPEN_TURN backend-not-found form-not-mounted duplicate-backend duplicate-mount version-mismatch
malformed-medium closed already-open facet-unsupported invalid-record missing-key ALREADY_IN_FLIGHT
DUPLICATE_FLOW NOT_COMMITTED NO_FLOW UNKNOWN_METHOD DECLINED SETTINGS_CONFLICT directory-unreadable
directory-exists directory-create-failed session-not-found target-not-found version-conflict
note-blank note-too-large plugin-not-running stale-run method-not-found handler-error internal
bad-request agent-busy session-conflict model-unavailable title-invalid fork-unavailable
attachment-error queue-item-not-found steer-unavailable credential-rejected ADVICE LOG_DAMAGE
""")
INFERRED = listed("""
APPROVAL_CANCELLED APPROVAL_REJECTED APPROVAL_REQUIRED APPROVAL_UNAVAILABLE ESCALATION_NOT_WIDER
""")
# What a Linux kernel can answer, as far as Python has names for it.
ERRNOS = listed("""
E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EADV EAFNOSUPPORT EAGAIN EALREADY EBADE EBADF EBADFD EBADMSG
EBADR EBADRQC EBADSLT EBFONT EBUSY ECANCELED ECHILD ECHRNG ECOMM ECONNABORTED ECONNREFUSED
ECONNRESET EDEADLK EDEADLOCK EDESTADDRREQ EDOM EDOTDOT EDQUOT EEXIST EFAULT EFBIG EHOSTDOWN
EHOSTUNREACH EIDRM EILSEQ EINPROGRESS EINTR EINVAL EIO EISCONN EISDIR EISNAM EKEYEXPIRED
EKEYREJECTED EKEYREVOKED EL2HLT EL2NSYNC EL3HLT EL3RST ELIBACC ELIBBAD ELIBEXEC ELIBMAX ELIBSCN
ELNRNG ELOOP EMEDIUMTYPE EMFILE EMLINK EMSGSIZE EMULTIHOP ENAMETOOLONG ENAVAIL ENETDOWN ENETRESET
ENETUNREACH ENFILE ENOANO ENOBUFS ENOCSI ENODATA ENODEV ENOENT ENOEXEC ENOKEY ENOLCK ENOLINK
ENOMEDIUM ENOMEM ENOMSG ENONET ENOPKG ENOPROTOOPT ENOSPC ENOSR ENOSTR ENOSYS ENOTBLK ENOTCONN
ENOTDIR ENOTEMPTY ENOTNAM ENOTRECOVERABLE ENOTSOCK ENOTSUP ENOTTY ENOTUNIQ ENXIO EOPNOTSUPP
EOVERFLOW EOWNERDEAD EPERM EPFNOSUPPORT EPIPE EPROTO EPROTONOSUPPORT EPROTOTYPE ERANGE EREMCHG
EREMOTE EREMOTEIO ERESTART ERFKILL EROFS ESHUTDOWN ESOCKTNOSUPPORT ESPIPE ESRCH ESRMNT ESTALE
ESTRPIPE ETIME ETIMEDOUT ETOOMANYREFS ETXTBSY EUCLEAN EUNATCH EUSERS EWOULDBLOCK EXDEV EXFULL
""")
PLACES = {
    Where.LOG: IN_LOG,
    Where.TEXT: IN_TEXT,
    Where.HOST: IN_HOST,
    Where.INFERRED: INFERRED,
    Where.ERRNO: ERRNOS,
}

# Families that are promised to users by name.
PROMISED = {
    Family.MISSING: "ENOENT ENOTDIR FS_NOT_FOUND UNKNOWN_TOOL",
    Family.DENIED: "EACCES EPERM FS_PERMISSION_DENIED AUTH",
    Family.POLICY: "FS_SANDBOX_DENIED EROFS WEB_BLOCKED_URL FS_NOT_OBSERVED APPROVAL_REJECTED",
    Family.SANDBOX_BROKEN: "SANDBOX_UNAVAILABLE",
    Family.TRANSIENT: "RATE_LIMIT SERVER TIMEOUT TOOL_TIMEOUT TRANSPORT EAGAIN EBUSY ECONNRESET"
    " ETIMEDOUT EMPTY_RESPONSE STREAM_CLOSED",
    Family.EXHAUSTED: "ENOSPC EDQUOT QUOTA EMFILE CONTEXT_WINDOW_EXCEEDED",
    Family.BAD_ARGS: "INVALID_ARGS INVALID_REQUEST EINVAL FS_AMBIGUOUS_EDIT FS_EDIT_NOT_FOUND"
    " FS_STALE_VERSION EISDIR FS_NOT_REGULAR_FILE FS_TOO_LARGE",
    Family.CANCELLED: "ABORTED ABORTED_BEFORE_DISPATCH TOOL_NOT_STARTED ECANCELED",
    Family.UNKNOWN_OUTCOME: "TOOL_OUTCOME_UNKNOWN EINTR",
    Family.CONTRACT: "INVARIANT INVALID_TOOL_OUTPUT MALFORMED_RESPONSE EBADMSG",
}
PROMISES = [(code, family) for family, names in PROMISED.items() for code in names.split()]

# Codes of session events and texts that are a matter of rights.
PERMISSION = listed("""
AUTH QUOTA ACCOUNT_QUOTA MISSING_CREDENTIAL INVALID_CREDENTIAL ACCOUNT_SIGN_IN_REQUIRED
ACCOUNT_TOKEN_INVALID ACCOUNT_SIGNED_OUT FS_PERMISSION_DENIED FS_SANDBOX_DENIED SANDBOX_UNAVAILABLE
FOREIGN_SESSION WEB_BLOCKED_URL WEB_REDIRECT_BLOCKED WEB_PROVIDER_CREDENTIAL_MISSING UNAUTHORIZED
DELEGATED_CALLER GOAL_TOOL_AUTHORITY_REQUIRED TEAM_LEAD_REQUIRED TEAM_NOT_MEMBER
TEAM_TASK_UNAUTHORIZED SESSION_QUERY_TOOL_UNAUTHORIZED prompt-rejected
""")

ANY = st.text(max_size=300)
LONG = 200_000


class TestAdvice:
    """What a family entails."""

    def test_table(self) -> None:
        """Each family has one route and one answer to "may it be repeated"."""
        assert {str(f): (str(a.route), str(a.retryable)) for f, a in ADVICE.items()} == {
            "missing": ("replan", "no"),
            "denied": ("ask", "no"),
            "policy": ("escalate", "no"),
            "sandbox-broken": ("operator", "no"),
            "transient": ("retry", "with-backoff"),
            "exhausted": ("operator", "no"),
            "bad-args": ("self-correct", "after-change"),
            "cancelled": ("rerun", "safe"),
            "unknown-outcome": ("check-first", "never-blindly"),
            "contract": ("report", "no"),
            "uncoded": ("report", "no"),
        }

    def test_closed(self) -> None:
        """No family is without advice, no route and no answer without a family."""
        assert set(ADVICE) == set(Family)
        assert {a.route for a in ADVICE.values()} == set(Route)
        assert {a.retryable for a in ADVICE.values()} == set(Retryable)

    def test_fixed(self) -> None:
        """Advice cannot be changed while the program runs."""
        with pytest.raises(TypeError):
            ADVICE[Family.DENIED] = Advice(Route.RETRY, Retryable.SAFE)  # type: ignore[index]


class TestTable:
    """The known codes."""

    @pytest.mark.parametrize(
        ("where", "code"), [(where, code) for where, names in PLACES.items() for code in names]
    )
    def test_complete(self, where: Where, code: str) -> None:
        """Every spelling is a row of its own, filed under the place it stands in."""
        info = CODES[code]
        assert (info.code, info.where, info.known) == (code, where, True)
        assert lookup(code) is info

    def test_nothing_else(self) -> None:
        """The table holds no code that this test does not name."""
        named = {code for names in PLACES.values() for code in names}
        assert len(named) == sum(len(names) for names in PLACES.values()) > 440
        assert {c.code for c in CODES.values() if c.where is not Where.ERRNO} == named - set(ERRNOS)

    def test_names_of_this_platform(self) -> None:
        """Every system error this platform can name is a known code with the platform's text."""
        names = [name for name in dir(errno) if name.startswith("E")]
        assert len(names) > 50
        for name in names:
            assert CODES[name].where is Where.ERRNO
            assert CODES[name].errno == name
            assert CODES[name].meaning == os.strerror(getattr(errno, name))

    def test_no_row_twice(self) -> None:
        """No code has two rows, of which one would be lost."""
        rows = [
            line.split()[0]
            for line in _code_table.TABLE.splitlines()
            if line and not line.startswith("[")
        ]
        assert len(rows) == len(set(rows)) > 300
        names = " ".join(_code_table.ERRNO_FAMILIES.values()).split()
        assert len(names) == len(set(names)) > 80
        assert not set(rows) & set(names)

    def test_order(self) -> None:
        """Codes come block by block, sorted within a block, system errors last."""
        blocks: list[tuple[tuple[str, Where], list[str]]] = []
        for info in CODES.values():
            if not blocks or blocks[-1][0] != (info.area, info.where):
                blocks.append(((info.area, info.where), []))
            blocks[-1][1].append(info.code)
        heads = [head for head, _ in blocks]
        assert len(heads) == len(set(heads)) > 20
        assert heads[-1] == ("system", Where.ERRNO)
        for head, names in blocks:
            assert names == sorted(names), head

    @pytest.mark.parametrize("info", CODES.values(), ids=lambda c: c.code)
    def test_rows(self, info: CodeInfo) -> None:
        """Every row has a meaning, an area, a family with code, and an errno that exists."""
        assert info.meaning == info.meaning.strip() != ""
        assert info.area
        assert info.known
        assert info.family is not Family.UNCODED
        assert info.errno is None or CODES[info.errno].where is Where.ERRNO
        assert (info.route, info.retryable) == ADVICE[info.family]

    def test_no_errno(self) -> None:
        """Only codes that say nothing at all lack an errno."""
        assert {c.code for c in CODES.values() if c.errno is None} == {"UNKNOWN", "model-reported"}

    def test_fixed(self) -> None:
        """Neither the table nor a row can be changed."""
        with pytest.raises(TypeError):
            CODES["X"] = CODES["AUTH"]  # type: ignore[index]
        with pytest.raises(dataclasses.FrozenInstanceError):
            CODES["AUTH"].family = Family.TRANSIENT  # type: ignore[misc]

    @pytest.mark.parametrize(("code", "family"), PROMISES)
    def test_promised_family(self, code: str, family: Family) -> None:
        """Codes named in the documentation have the family it gives them."""
        assert lookup(code).family is family
        verdict = classify(code)
        assert (verdict.family, verdict.route, verdict.retryable) == (family, *ADVICE[family])
        assert not verdict.inferred

    def test_permission(self) -> None:
        """Rights, accounts and sandboxes are marked, and nothing else is."""
        marked = {
            c.code for c in CODES.values() if c.permission and c.where in (Where.LOG, Where.TEXT)
        }
        assert marked == set(PERMISSION)
        assert {c.code for c in CODES.values() if c.permission and c.where is Where.ERRNO} >= {
            "EACCES",
            "EPERM",
            "EROFS",
        }
        assert not CODES["ENOENT"].permission

    @pytest.mark.parametrize(
        ("code", "nearest"),
        [
            ("FS_NOT_FOUND", "ENOENT"),
            ("FS_PERMISSION_DENIED", "EACCES"),
            ("FS_SANDBOX_DENIED", "EPERM"),
            ("FS_STALE_VERSION", "ESTALE"),
            ("SANDBOX_UNAVAILABLE", "ENOSYS"),
            ("UNKNOWN_TOOL", "ENOSYS"),
            ("TOOL_OUTCOME_UNKNOWN", "EINTR"),
            ("INVARIANT", "ENOTRECOVERABLE"),
            ("QUOTA", "EDQUOT"),
            ("HTTP_404", "ENOENT"),
            ("TEAM_TASK_DEPENDENCY_CYCLE", "ELOOP"),
        ],
    )
    def test_errno(self, code: str, nearest: str) -> None:
        """A code of the harness has the nearest name of the system."""
        assert CODES[code].errno == nearest
        assert classify(code).errno == nearest

    def test_names_of_one_number(self) -> None:
        """Two names of one number are of one family."""
        pairs = 0
        for name in ERRNOS:
            number = getattr(errno, name, None)
            other = errno.errorcode.get(number) if number is not None else None
            if other is not None and other != name:
                pairs += 1
                assert lookup(other).family is lookup(name).family
        assert pairs > 0


class TestSpelling:
    """Codes no table has."""

    @pytest.mark.parametrize(
        ("code", "family"),
        [
            *[(f"HTTP_{n}", Family.TRANSIENT) for n in (408, 425, 429, 500, 502, 503, 529, 599)],
            *[(f"HTTP_{n}", Family.DENIED) for n in (401, 403, 407)],
            ("HTTP_402", Family.EXHAUSTED),
            ("HTTP_410", Family.MISSING),
            *[(f"HTTP_{n}", Family.BAD_ARGS) for n in (400, 405, 409, 413, 418, 422, 499)],
            *[(f"HTTP_{n}", Family.CONTRACT) for n in (0, 100, 200, 204, 301, 600, 4040, 50_000)],
            ("MCP_SERVER_NOT_FOUND", Family.MISSING),
            ("PLUGIN_MISSING", Family.MISSING),
            ("TRANSLATION_UNAVAILABLE", Family.MISSING),
            ("NOT_FOUND", Family.MISSING),
            ("FETCH_TIMEOUT", Family.TRANSIENT),
            ("TRANSLATION_TIMED_OUT", Family.TRANSIENT),
            ("SERVICE_UNAVAILABLE", Family.TRANSIENT),
            ("TOO_MANY_REQUESTS", Family.TRANSIENT),
            ("PROVIDER_RATE_LIMIT", Family.TRANSIENT),
            ("DB_BUSY", Family.TRANSIENT),
            ("JOB_ABORTED", Family.CANCELLED),
            ("JOB_CANCELLED", Family.CANCELLED),
            ("JOB_CANCELED", Family.CANCELLED),
            ("API_UNAUTHORIZED", Family.DENIED),
            ("API_FORBIDDEN", Family.DENIED),
            ("ACCESS_DENIED", Family.DENIED),
            ("X_CREDENTIAL_MISSING", Family.DENIED),
            ("INVALID_API_KEY", Family.DENIED),
            ("TOKEN_EXPIRED", Family.DENIED),
            ("LOGIN_REQUIRED", Family.DENIED),
            ("MY_SANDBOX_DENIED", Family.POLICY),
            ("COMMAND_BLOCKED", Family.POLICY),
            ("CHANGE_REJECTED", Family.POLICY),
            ("SANDBOX_RUNNER_UNAVAILABLE", Family.SANDBOX_BROKEN),
            ("CALL_LIMIT", Family.EXHAUSTED),
            ("CALL_LIMIT_REACHED", Family.EXHAUSTED),
            ("QUEUE_FULL", Family.EXHAUSTED),
            ("MONTHLY_QUOTA", Family.EXHAUSTED),
            ("INVALID_QUERY", Family.BAD_ARGS),
            ("SHEET_INVALID_RANGE", Family.BAD_ARGS),
            ("INVALID_TIMEOUT", Family.BAD_ARGS),
            ("UNSUPPORTED_FORMAT", Family.BAD_ARGS),
            ("FILE_TOO_LARGE", Family.BAD_ARGS),
            ("NAME_EXISTS", Family.BAD_ARGS),
            ("MALFORMED_REPLY", Family.CONTRACT),
        ],
    )
    def test_rules(self, code: str, family: Family) -> None:
        """Status numbers and words of a code decide its family, and the answer says so."""
        info = lookup(code)
        assert code not in CODES
        assert (info.code, info.family, info.known, info.where) == (code, family, False, Where.RULE)
        assert (info.route, info.retryable) == ADVICE[family]

    @pytest.mark.parametrize(
        ("code", "family"),
        [
            ("workspace-not-found", Family.MISSING),
            ("agent-preset-invalid-name", Family.BAD_ARGS),
            ("subagent-aborted", Family.CANCELLED),
            ("rate-limit", Family.TRANSIENT),
            ("sandbox-unavailable", Family.SANDBOX_BROKEN),
            ("enoent", Family.MISSING),
            ("http-401", Family.DENIED),
            ("max-tokens", Family.EXHAUSTED),
            ("blocked", Family.POLICY),
        ],
    )
    def test_lower_case(self, code: str, family: Family) -> None:
        """Lower case and hyphens are read like capitals and underscores."""
        info = lookup(code)
        assert (info.code, info.family, info.known) == (code, family, False)

    def test_right_is_told_from_family(self) -> None:
        """A code classed by spelling is a matter of rights if its family is."""
        assert lookup("API_FORBIDDEN").permission
        assert lookup("COMMAND_BLOCKED").permission
        assert not lookup("QUEUE_FULL").permission

    def test_errno_of_rules(self) -> None:
        """Spelling gives an errno for system names, other writings of known codes and HTTP."""
        assert lookup("EWEIRD").errno == "EWEIRD"
        assert lookup("rate-limit").errno == "EAGAIN"
        assert lookup("HTTP_418").errno == "EPROTO"
        assert lookup("QUEUE_FULL").errno is None

    @pytest.mark.parametrize(
        "code",
        [
            "GIT_FAILED",
            "SOMETHING",
            "interrupted",
            "EWEIRD",
            "ERROR",
            "ERR_X",
            "-32603",
            " ",
            "X\nNOT_FOUND",
            "X\x00_NOT_FOUND",
            "A" * 200 + "_NOT_FOUND",
            "\ud800_NOT_FOUND",
            "INVALIDATE",
            "UNLIMITED",
            "UNBLOCKED",
            "UNKNOWN_ERROR",
        ],
        ids=ascii,
    )
    def test_no_rule(self, code: str) -> None:
        """A code that says nothing is no reason to repeat anything, and it is not uncoded."""
        info = lookup(code)
        assert info.code == code
        assert (info.family, info.known) == (Family.UNKNOWN_OUTCOME, False)
        assert info.retryable is Retryable.NEVER_BLINDLY
        assert not is_permanent(code)

    def test_words_are_no_errno(self) -> None:
        """An English word in capitals is not mistaken for a system error."""
        assert lookup("ERROR").errno is None
        assert lookup("EXPIRED").errno is None

    @given(ANY)
    def test_never_raises(self, code: str) -> None:
        """Any string has an answer that names it, and none is uncoded."""
        info = lookup(code)
        assert info.code == code
        assert info.family is not Family.UNCODED
        assert info == lookup(code)
        assert info.known == (code in CODES)
        assert is_permanent(code) is is_permanent(code)

    @given(st.from_regex(r"[A-Z]{1,12}(_[A-Z]{1,12}){0,5}", fullmatch=True))
    def test_codes_like_ours(self, code: str) -> None:
        """Any code in the harness's spelling has an answer that does not depend on case."""
        assert lookup(code).family is lookup(code.lower().replace("_", "-")).family


class TestPermanent:
    """Which failures an identical call meets again."""

    @pytest.mark.parametrize(
        ("code", "permanent"),
        [
            ("ENOENT", True),
            ("EACCES", True),
            ("FS_SANDBOX_DENIED", True),
            ("SANDBOX_UNAVAILABLE", True),
            ("INVALID_ARGS", True),
            ("INVARIANT", True),
            ("ENOSPC", True),
            ("QUOTA", True),
            ("HTTP_400", True),
            ("RATE_LIMIT", False),
            ("ECONNRESET", False),
            ("ABORTED", False),
            ("TOOL_OUTCOME_UNKNOWN", False),
            ("HTTP_503", False),
        ],
    )
    def test_permanent(self, code: str, permanent: bool) -> None:
        """What somebody has to mend first is permanent; what time or luck may mend is not."""
        assert is_permanent(code) is permanent

    def test_follows_family(self) -> None:
        """It is the family that decides, for every known code."""
        families = {c.family for c in CODES.values() if is_permanent(c.code)}
        others = {c.family for c in CODES.values() if not is_permanent(c.code)}
        assert families == set(Family) - others - {Family.UNCODED}
        assert others == {Family.TRANSIENT, Family.CANCELLED, Family.UNKNOWN_OUTCOME}


READ_DENIED = "Error: EACCES: permission denied, open '/home/dev/ws/secret.txt'"
MKDIR_DENIED = (
    "Error: EACCES: permission denied, mkdir '/home/dev/ws/ro/.new.txt.26872.62d9.tmpdir'"
)
GLOB_DENIED = (
    "Error: glob search failed (exit 2): rg: /home/dev/ws/locked: IO error for operation on"
    " /home/dev/ws/locked: Permission denied (os error 13)"
)
GLOB_MISSING = (
    "Error: glob search failed (exit 2): rg: /nope: IO error for operation on /nope: No such file"
    " or directory (os error 2)"
)
NO_CHANNEL = (
    'Error: sandbox escalation to "danger-full-access" requires approval, but no approval channel'
    " is available"
)
NO_BACKEND = (
    'Error: sandbox mode "workspace-write" is requested but no sandbox backend is usable on this'
    " host; refusing to run the command unconfined. Install bubblewrap or run a Landlock-enforcing"
    " kernel (Linux), ensure sandbox-exec is usable (macOS), or ensure the ACL restricted-token"
    " runner can start (Windows) \u2014 otherwise switch the consumer to danger-full-access."
)
WRITE_DENIED = (
    "Error: [sandbox: file access denied under workspace-write mode]\n[sandbox: escalation"
    " available \u2014 retry this exact operation once with sandbox_permissions (the narrowest"
    " wider mode that suffices) + justification; the approval prompt asks the user]"
)
BASH_DENIED = (
    "[stderr]\ntouch: cannot touch '/var/tmp/x': Read-only file system\n"
    "[sandbox: file access denied under read-only mode]\n"
    "[sandbox: escalation available \u2014 retry this exact command once]\n[exit code: 1]"
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/home/dev/ws/a.py", line 1, in <module>\n'
    "    open('/root/x')\nPermissionError: [Errno 13] Permission denied: '/root/x'\n\n"
    "[exit code: 1]\n"
)

TEXTS = [
    (READ_DENIED, "EACCES"),
    (MKDIR_DENIED, "EACCES"),
    (GLOB_DENIED, "EACCES"),
    (GLOB_MISSING, "ENOENT"),
    (NO_CHANNEL, "APPROVAL_UNAVAILABLE"),
    (NO_BACKEND, "SANDBOX_UNAVAILABLE"),
    (WRITE_DENIED, "FS_SANDBOX_DENIED"),
    (BASH_DENIED, "FS_SANDBOX_DENIED"),
    (TRACEBACK, "EACCES"),
    ('Error: unknown tool "no_such_tool"', "UNKNOWN_TOOL"),
    ("Error: ENOSPC: no space left on device, write", "ENOSPC"),
    ("Error: EROFS: read-only file system, rename '/a' -> '/b'", "EROFS"),
    ("Error: EXDEV: cross-device link not permitted, rename '/a' -> '/b'", "EXDEV"),
    ("  Error: ENOENT: no such file or directory, open '/x, y'\r\n", "ENOENT"),
    ("Error: cannot store: EACCES: permission denied", "EACCES"),
    ("EACCES: permission denied", "EACCES"),
    ("Error: connect ECONNREFUSED 127.0.0.1:3000", "ECONNREFUSED"),
    ("Error: fetch failed: connect ETIMEDOUT 10.0.0.1:443", "ETIMEDOUT"),
    ("Error: getaddrinfo ENOTFOUND example.invalid", "ENOTFOUND"),
    ("Error: spawn npx ENOENT", "ENOENT"),
    ("Error: read ECONNRESET", "ECONNRESET"),
    ("Error: EODD: something new, open '/x'", "EODD"),
    ("Error: EODD: something new, read", "EODD"),
    ("TypeError [ERR_X]: EPERM: operation not permitted, chmod", "EPERM"),
    ("Error: [Errno 28] No space left on device: '/x'", "ENOSPC"),
    ("[Errno 2] No such file or directory: 'x'\nsecond line", "ENOENT"),
    ("OSError: [Errno 30] Read-only file system: '/x'", "EROFS"),
    (
        "building\nerror: could not write: Disk quota exceeded (os error 122)\n[exit code: 101]",
        "EDQUOT",
    ),
    ("cat: x\nNo such file or directory (os error 2)", "ENOENT"),
    (
        'Error: tool "bash" requires approval, but no approval service is composed',
        "APPROVAL_UNAVAILABLE",
    ),
    (
        'Error: tool "write" requires approval, but the call has no agent to route it through',
        "APPROVAL_UNAVAILABLE",
    ),
    ('Error: tool "write" requires approval (not yet supported)', "APPROVAL_REQUIRED"),
    ('Error: sandbox escalation to "danger-full-access" requires approval', "APPROVAL_REQUIRED"),
    (
        'Error: the user rejected escalating this command to "danger-full-access"',
        "APPROVAL_REJECTED",
    ),
    ('Error: the user rejected tool "write"', "APPROVAL_REJECTED"),
    (
        'Error: sandbox escalation to "danger-full-access" requires approval, but it was rejected',
        "APPROVAL_REJECTED",
    ),
    ('Error: approval for escalating to "workspace-write" was cancelled', "APPROVAL_CANCELLED"),
    ('Error: approval for tool "write" was cancelled', "APPROVAL_CANCELLED"),
    (
        'Error: sandbox escalation to "read-only" is not strictly wider than the "read-only" mode',
        "ESCALATION_NOT_WIDER",
    ),
]
SILENT = [
    "",
    "\n\n",
    "[exit code: 1]",
    "[exit code: 13]\n",
    "Error: something broke",
    'Error: cannot read "/nope/missing.txt": not found',
    "Error: SOMETHING: wrong, open '/x'",
    "Error: ENOPE: no syscall named",
    "Error: ERROR: not a name, open '/x'",
    "Error: (os error 99999)",
    "Error: [Errno 99999] odd",
    "Error: the user asked for ENOENT",
    "Error: 'ENOENT' is not a tool",
    "run 12 tests\nENOENT: no such file or directory, open 'x'\n12 passed\n[exit code: 0]",
    "a log\nError: EACCES: permission denied, open '/x'\nrecovered\ndone",
    "a log\n[Errno 13] Permission denied\nrecovered",
    "tried (os error 2) and went on\nall good",
    "text\n[sandbox: file access denied under read-only mode]\nmore output\n[exit code: 1]",
    'output\nsandbox mode "x" is requested but no sandbox backend is usable',
    'he said: unknown tool "x"',
    'note: sandbox escalation to "x" requires approval',
    "the documentation explains ENOENT: no such file",
]


class TestText:
    """Codes read from texts."""

    @pytest.mark.parametrize(("text", "code"), TEXTS, ids=lambda v: ascii(v)[:60])
    def test_found(self, text: str, code: str) -> None:
        """A text that is an error gives its code, and the verdict says it was read from there."""
        assert infer_code(text) == code
        verdict = classify(None, None, text)
        assert (verdict.code, verdict.inferred) == (code, True)
        assert verdict.family is lookup(code).family
        assert (verdict.route, verdict.retryable) == ADVICE[verdict.family]

    @pytest.mark.parametrize("text", SILENT, ids=lambda v: ascii(v)[:60])
    def test_not_found(self, text: str) -> None:
        """A text that mentions a code without being that error gives none."""
        assert infer_code(text) is None
        verdict = classify(None, "Error", text)
        assert verdict == Classification(
            None, "Error", Family.UNCODED, Route.REPORT, Retryable.NO, inferred=False, errno=None
        )

    @pytest.mark.parametrize("name", [n for n in ERRNOS if hasattr(errno, n)])
    def test_every_system_error(self, name: str) -> None:
        """Each system error is found by name as Node writes it, and by number as Rust does."""
        number = getattr(errno, name)
        assert infer_code(f"Error: {name}: any words, open '/x'") == name
        by_number = infer_code(f"Error: rg: /x: any words (os error {number})")
        assert by_number == errno.errorcode[number] == infer_code(f"[Errno {number}] any words")
        assert classify(None, None, f"Error: {name}: words, read").errno == name

    @pytest.mark.parametrize("marker", [READ_DENIED, NO_CHANNEL, NO_BACKEND, WRITE_DENIED])
    def test_beginning_of_a_long_text(self, marker: str) -> None:
        """An error at the beginning is found whatever follows."""
        assert infer_code(f"{marker}\n{'x' * LONG}") == infer_code(marker) is not None

    @pytest.mark.parametrize("marker", [BASH_DENIED, TRACEBACK, GLOB_DENIED])
    def test_end_of_a_long_text(self, marker: str) -> None:
        """An error at the end is found whatever stands before it."""
        text = ("x" * 79 + "\n") * (LONG // 80) + marker
        assert infer_code(text) == infer_code(marker) is not None

    @pytest.mark.parametrize("marker", [READ_DENIED, BASH_DENIED, TRACEBACK, GLOB_DENIED])
    def test_middle_of_a_long_text(self, marker: str) -> None:
        """The middle of a text is never read."""
        assert infer_code(f"{'x' * LONG}\n{marker}\n{'y' * LONG}") is None

    def test_far_into_a_line(self) -> None:
        """Neither a long first line nor a long last line is read to where it is cut."""
        for lead, code in ((100, "ENOENT"), (5000, None)):
            assert infer_code(f"Error: {'x' * lead}: ENOENT: gone\n{'y' * LONG}") == code
            assert infer_code(f"output\n[Errno 2] gone {'y' * lead}") == code

    def test_cut_is_no_beginning(self) -> None:
        """Where the end of a text is cut out, no line begins."""
        for lead in range(1015, 1035):
            text = "a" * 3000 + "[Errno 13] ".ljust(lead, "b")
            assert infer_code(text) is None
        assert infer_code("a" * 3000 + " (os error 13)") == "EACCES"

    @pytest.mark.parametrize(
        "text",
        [
            "E" * LONG,
            "Error: " * 30_000,
            "Error: EFOO: " + ", a" * 50_000,
            "Error: EFOO: " + "x, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa " * 5_000,
            "Error: spawn " * 20_000,
            "Error: : spawn : spawn " + ": spawn " * 20_000,
            "approval for " + " was" * 50_000,
            'tool "a" requires approval, but ' + "rejecte " * 20_000,
            "[sandbox: " * 20_000,
            "[exit code: 1]\n" * 20_000,
            "\n" * LONG,
            "a." * LONG,
            "(os error " * 20_000,
            "\ud800" * LONG,
        ],
        ids=lambda v: ascii(v)[:30],
    )
    def test_hostile_text(self, text: str) -> None:
        """Text made to keep a pattern busy is answered, and answered alike every time."""
        code = infer_code(text)
        assert code == infer_code(text)
        assert classify("UNKNOWN", None, text).code == "UNKNOWN"

    @given(st.text(max_size=500), st.text(max_size=3), st.text(max_size=500))
    @example("Error: ", "", "(os error 2)")
    def test_any_text(self, before: str, glue: str, after: str) -> None:
        """Any text is answered with nothing or with something that looks like a code."""
        for text in (before + glue + after, f"Error: {before}\n{after}", f"{before}[{after}]"):
            code = infer_code(text)
            assert code is None or (re.fullmatch(r"[A-Z][A-Z0-9_]{2,40}", code) is not None)
            verdict = classify(None, before, text)
            assert (verdict.code, verdict.inferred) == (code, code is not None)
            assert (verdict.family is Family.UNCODED) == (code is None)


class TestClassify:
    """Verdicts."""

    def test_whole(self) -> None:
        """A verdict holds code, name, family, advice and errno."""
        assert classify("FS_NOT_FOUND", "FsError") == Classification(
            "FS_NOT_FOUND",
            "FsError",
            Family.MISSING,
            Route.REPLAN,
            Retryable.NO,
            inferred=False,
            errno="ENOENT",
        )

    @pytest.mark.parametrize("code", [None, ""])
    @pytest.mark.parametrize("text", [None, "", "nothing to see"])
    def test_uncoded(self, code: str | None, text: str | None) -> None:
        """Without code in either place the family is uncoded."""
        verdict = classify(code, "E", text)
        assert (verdict.code, verdict.name, verdict.family) == (None, "E", Family.UNCODED)
        assert (verdict.inferred, verdict.errno) == (False, None)

    @pytest.mark.parametrize(
        "code",
        [c for c in CODES if c not in ("UNKNOWN", "PI_AI_ERROR", "SEARCH_FAILED", "FS_IO_ERROR")],
    )
    def test_code_beats_text(self, code: str) -> None:
        """A code that says something is not overruled by the text."""
        for text in (None, READ_DENIED, GLOB_MISSING, NO_BACKEND, "words"):
            verdict = classify(code, "Any", text)
            assert (verdict.code, verdict.family) == (code, CODES[code].family)
            assert not verdict.inferred

    @pytest.mark.parametrize("code", ["UNKNOWN", "PI_AI_ERROR", "SEARCH_FAILED", "FS_IO_ERROR"])
    def test_text_of_unspecific_codes(self, code: str) -> None:
        """A code that names no cause stays, and the text gives family and errno."""
        verdict = classify(code, "SearchError", GLOB_DENIED)
        assert verdict == Classification(
            code,
            "SearchError",
            Family.DENIED,
            Route.ASK,
            Retryable.NO,
            inferred=True,
            errno="EACCES",
        )
        assert classify(code, None, GLOB_MISSING).family is Family.MISSING

    @pytest.mark.parametrize(
        ("code", "family"),
        [
            ("UNKNOWN", Family.UNKNOWN_OUTCOME),
            ("PI_AI_ERROR", Family.UNKNOWN_OUTCOME),
            ("SEARCH_FAILED", Family.BAD_ARGS),
            ("FS_IO_ERROR", Family.TRANSIENT),
        ],
    )
    def test_unspecific_codes_alone(self, code: str, family: Family) -> None:
        """Without help from the text such a code has its own family."""
        for text in (None, "", "Error: something else"):
            verdict = classify(code, None, text)
            assert (verdict.code, verdict.family, verdict.inferred) == (code, family, False)

    @pytest.mark.parametrize(
        ("message", "family"),
        [
            ("cannot save the session: ENOSPC: no space left on device, write", Family.EXHAUSTED),
            ("fetch failed: connect ECONNREFUSED 127.0.0.1:80", Family.TRANSIENT),
            ("EACCES: permission denied, open '/x'", Family.DENIED),
        ],
    )
    def test_message_without_prefix(self, message: str, family: Family) -> None:
        """The message of a failure of unknown code is an error though it does not say so."""
        verdict = classify("UNKNOWN", None, message)
        assert (verdict.code, verdict.family, verdict.inferred) == ("UNKNOWN", family, True)

    @pytest.mark.parametrize(
        ("code", "text", "nearest"),
        [
            (
                "FS_NOT_FOUND",
                'Error: cannot resolve "/ws/a/b": a parent path segment is not a directory',
                "ENOTDIR",
            ),
            ("FS_NOT_FOUND", 'Error: cannot read "/ws/a": not found', "ENOENT"),
            ("FS_SANDBOX_DENIED", BASH_DENIED, "EROFS"),
            ("FS_SANDBOX_DENIED", WRITE_DENIED, "EPERM"),
            ("FS_SANDBOX_DENIED", "x" * LONG + BASH_DENIED, "EROFS"),
            ("FS_SANDBOX_DENIED", f"{'x' * LONG}{BASH_DENIED}{'y' * LONG}", "EPERM"),
            (None, BASH_DENIED, "EROFS"),
            (None, WRITE_DENIED, "EPERM"),
        ],
        ids=lambda v: ascii(v)[:40],
    )
    def test_finer_errno(self, code: str | None, text: str, nearest: str) -> None:
        """One code for two system errors is told apart by the text; the family stays."""
        verdict = classify(code, None, text)
        assert verdict.errno == nearest
        assert verdict.family is lookup(verdict.code or "").family

    def test_families_of_the_errno(self) -> None:
        """Two failed reads that differ only in errno are told apart."""
        denied = classify(None, None, READ_DENIED)
        missing = classify(
            None, None, READ_DENIED.replace("EACCES: permission denied", "ENOENT: no")
        )
        assert (denied.family, missing.family) == (Family.DENIED, Family.MISSING)

    @given(ANY, st.none() | ANY, st.none() | ANY)
    def test_never_raises(self, code: str, name: str | None, text: str | None) -> None:
        """Whatever comes, the verdict keeps code and name and is the same the second time."""
        verdict = classify(code, name, text)
        assert verdict == classify(code, name, text)
        assert verdict.name == name
        assert (verdict.route, verdict.retryable) == ADVICE[verdict.family]
        if code:
            assert verdict.code == code
            assert verdict.family is not Family.UNCODED

    @given(st.sampled_from(sorted(CODES)), st.none() | ANY)
    def test_advice_never_widens(self, code: str, text: str | None) -> None:
        """No text turns a refused call into one that may be repeated as it is."""
        if CODES[code].permission:
            assert classify(code, None, text).retryable is Retryable.NO


class TestBounds:
    """Memory does not grow with what comes in."""

    def test_caches(self) -> None:
        """However many codes and names there are, few are kept."""
        caches = [codes._by_rule, codes._by_code]
        for n in range(5000):
            classify(f"CODE_{n}", f"Name{n}")
        for cache in caches:
            info = cache.cache_info()
            assert info.maxsize is not None
            assert 0 < info.currsize <= info.maxsize <= 4096

    @pytest.mark.parametrize("code", ["X" * 129, "X\n", "X\x7f", "X\ud800"], ids=ascii)
    def test_odd_codes_are_not_kept(self, code: str) -> None:
        """Long or unprintable codes and names are answered and forgotten."""
        classify("AUTH", "warm")
        before = codes._by_rule.cache_info(), codes._by_code.cache_info()
        assert lookup(code).family is Family.UNKNOWN_OUTCOME
        assert classify(code).code == code
        assert classify("AUTH", code).name == code
        assert (codes._by_rule.cache_info(), codes._by_code.cache_info()) == before

    def test_longest_code(self) -> None:
        """A code of the greatest length is still read."""
        code = "X" * (128 - len("_NOT_FOUND")) + "_NOT_FOUND"
        assert lookup(code).family is Family.MISSING
        assert lookup(f"X{code}").family is Family.UNKNOWN_OUTCOME

    def test_repeated_verdicts_are_shared(self) -> None:
        """The verdict on a code seen before is not made again."""
        assert classify("INVALID_ARGS", "ToolArgsError") is classify(
            "INVALID_ARGS", "ToolArgsError", "any text"
        )


class TestTravel:
    """Rows and verdicts cross processes."""

    @pytest.mark.parametrize(
        "value",
        [
            CODES["FS_NOT_FOUND"],
            lookup("HTTP_418"),
            classify("AUTH"),
            classify(None),
            ADVICE[Family.MISSING],
            Family.SANDBOX_BROKEN,
        ],
        ids=lambda v: type(v).__name__,
    )
    def test_pickle_and_copy(self, value: Any) -> None:
        """They can be pickled and copied."""
        assert pickle.loads(pickle.dumps(value)) == value
        assert copy.deepcopy(value) == value
