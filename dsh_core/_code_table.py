"""The codes as data: one line a code, in blocks; `dsh_core.codes` gives them types.

Columns: code, nearest errno (``-`` for none), family, ``yes`` if a right or a sandbox decides,
meaning. A head ``[area] place`` starts a block; places are those of `dsh_core.codes.Where`.
"""

from typing import Final

TABLE: Final = """
[model] log
ACCOUNT_QUOTA                EDQUOT     exhausted       yes the account's quota is used up
ACCOUNT_SIGNED_OUT           EACCES     denied          yes the account is signed out
ACCOUNT_SIGN_IN_REQUIRED     EACCES     denied          yes the account must sign in first
ACCOUNT_TOKEN_INVALID        EACCES     denied          yes the account's token is not accepted
AUTH                         EACCES     denied          yes credentials refused (HTTP 401, 403)
CLIENT_UPGRADE_REQUIRED      EOPNOTSUPP contract        -   the model refuses this client version
CONTENT_FILTER               EPERM      policy          -   the provider's filter ended the answer
CONTEXT_WINDOW_EXCEEDED      EMSGSIZE   exhausted       -   the request exceeds the model's context
EMPTY_RESPONSE               ENODATA    transient       -   the answer has no body or no content
FILES_API                    EIO        transient       -   upload to the provider failed
HTTP_404                     ENOENT     missing         -   the provider knows no such address
IMAGE_OFFLOAD_REQUIRED       E2BIG      bad-args        -   too many images; some must be offloaded
INACTIVE_EFFECT              ENOTCONN   contract        -   a plugin acts after it was unloaded
INSUFFICIENT_SYSTEM_RESOURCE ENOMEM     transient       -   the provider ran out of capacity
INVALID_CREDENTIAL           EACCES     denied          yes the stored key cannot be used
INVALID_PREPARED_CALL        EINVAL     contract        -   the harness prepared a broken request
INVALID_REPLAY_STATE         EINVAL     contract        -   stored provider state does not fit
INVALID_REQUEST              EINVAL     bad-args        -   request refused (HTTP 400, 413)
INVALID_RESPONSE             EBADMSG    contract        -   the provider's JSON cannot be read
MALFORMED_RESPONSE           EBADMSG    contract        -   broken chunk, tool input or stop reason
MAX_TOKENS                   EMSGSIZE   exhausted       -   the compaction summary was cut off
MISSING_CREDENTIAL           EACCES     denied          yes no key is configured
MODEL_UNSUPPORTED            EOPNOTSUPP bad-args        -   the model is not supported
NO_ADAPTER                   ENODEV     missing         -   no adapter serves the model
PI_AI_ERROR                  EIO        unknown-outcome -   the adapter could not name the failure
QUOTA                        EDQUOT     exhausted       yes balance or quota is used up (HTTP 402)
RATE_LIMIT                   EAGAIN     transient       -   too many requests (HTTP 429)
REQUEST_EXTENSION            EINVAL     contract        -   a request extension collides or failed
SERVER                       EREMOTEIO  transient       -   provider fault or overload (HTTP 5xx)
STREAM_CLOSED                EPIPE      transient       -   the stream ended before its end marker
TIMEOUT                      ETIMEDOUT  transient       -   provider silent for too long
TRANSPORT                    ECONNRESET transient       -   the connection failed
UNKNOWN                      -          unknown-outcome -   an error without code; its text may tell
UNKNOWN_MODEL                ENODEV     missing         -   no such model on this route
UNSUPPORTED                  EOPNOTSUPP bad-args        -   the adapter lacks a requested feature
UNSUPPORTED_CONTENT          EOPNOTSUPP bad-args        -   the adapter cannot send this content
UNSUPPORTED_OPTION           EOPNOTSUPP bad-args        -   option unknown to adapter or workflow
UNSUPPORTED_REASONING_EFFORT EOPNOTSUPP bad-args        -   the model has no such reasoning effort
[provider registry] host
DISCOVERY_FAILED         EIO        transient - asking a provider for models failed
DISCOVERY_UNSUPPORTED    EOPNOTSUPP bad-args  - the provider cannot list its models
DUPLICATE_ADAPTER        EEXIST     bad-args  - the adapter or model is registered already
DUPLICATE_DIRECTORY      EEXIST     bad-args  - the directory is registered already
DUPLICATE_DISCOVERY      EEXIST     bad-args  - the discovery is registered already
INVALID_ADAPTER          EINVAL     bad-args  - the adapter is not well formed
INVALID_CATALOG          EINVAL     bad-args  - the model catalog is not well formed
INVALID_DIRECTORY        EINVAL     bad-args  - the provider directory is not well formed
INVALID_DISCOVERY        EINVAL     bad-args  - the discovery is not well formed
INVALID_MODEL_CONTEXT    EINVAL     bad-args  - the model's context size is not usable
INVALID_MODEL_INFO       EINVAL     bad-args  - the model's description is not usable
INVALID_MODEL_MAX_TOKENS EINVAL     bad-args  - the model's output limit is not usable
INVALID_MODEL_REASONING  EINVAL     bad-args  - the model's reasoning levels are not usable
MODEL_LISTING_TIMEOUT    ETIMEDOUT  transient - listing models took too long
NO_CREDENTIAL_STORE      ENODEV     missing   - nothing to keep credentials in
NO_DISCOVERY             ENODEV     missing   - the provider has no discovery
REGISTRATION_DISPOSED    ESHUTDOWN  missing   - the registration is gone
UNSTORABLE_PROVIDER_ID   EINVAL     bad-args  - the provider id cannot be stored
[tool] log
ABORTED                 ECANCELED  cancelled       - turn, stream or running tool was aborted
ABORTED_BEFORE_DISPATCH ECANCELED  cancelled       - aborted before the tool began
CODE_RUN_FAILED         ECHILD     bad-args        - the program given to run_code failed
INVALID_ARGS            EINVAL     bad-args        - arguments break the tool's schema
INVALID_TOOL_OUTPUT     EBADMSG    contract        - the tool's value breaks its own schema
INVARIANT               ENOTRECOVERABLE contract   - the session contract is broken
TOOL_NOT_STARTED        ECANCELED  cancelled       - crash repair: the call never started
TOOL_OUTCOME_UNKNOWN    EINTR      unknown-outcome - crash repair: started, result lost
TOOL_TIMEOUT            ETIMEDOUT  transient       - the guard ended a slow tool
UNKNOWN_TOOL            ENOSYS     missing         - no such tool, or not callable here
UNSUPPORTED_SCHEMA      EOPNOTSUPP bad-args        - schema feature unknown to tools or workflow
[file system] log
FS_ABORTED           ECANCELED cancelled -   the operation was cancelled
FS_AMBIGUOUS_EDIT    ENOTUNIQ  bad-args  -   the text to replace occurs more than once
FS_EDIT_NOT_FOUND    ENOMSG    bad-args  -   the text to replace does not occur
FS_IO_ERROR          EIO       transient -   some other input or output failure
FS_NOT_DIRECTORY     ENOTDIR   missing   -   listing something that is no directory
FS_NOT_FOUND         ENOENT    missing   -   path, parent or read offset does not exist
FS_NOT_OBSERVED      EPERM     policy    -   changing a file that was not read before
FS_NOT_REGULAR_FILE  EISDIR    bad-args  -   directory or device where a file is needed
FS_NOT_TEXT          EILSEQ    bad-args  -   binary data or broken UTF-8
FS_PERMISSION_DENIED EACCES    denied    yes the system forbids listing
FS_SANDBOX_DENIED    EPERM     policy    yes the sandbox mode forbids the access
FS_STALE_VERSION     ESTALE    bad-args  -   the file changed since it was read
FS_TOO_LARGE         EFBIG     bad-args  -   the file exceeds the size cap
[search] log
SEARCH_ABORTED             ECANCELED cancelled - the search was cancelled or took too long
SEARCH_FAILED              EIO       bad-args  - the search program failed; its text may tell
SEARCH_INVALID_PATTERN     EINVAL    bad-args  - the pattern cannot be compiled
SEARCH_RAW_OUTPUT_OVERFLOW EOVERFLOW bad-args  - the search found too much
[sandbox] log
SANDBOX_UNAVAILABLE ENOSYS sandbox-broken yes confinement asked for, no backend works
[approval] inferred
APPROVAL_CANCELLED   ECANCELED cancelled -   the question was withdrawn; nothing ran
APPROVAL_REJECTED    EPERM     policy    yes the user said no
APPROVAL_REQUIRED    EPERM     policy    yes the call needs an approval it has not got
APPROVAL_UNAVAILABLE EPERM     policy    yes an approval is needed, nobody can give it
ESCALATION_NOT_WIDER EINVAL    bad-args  -   the mode asked for is no wider than the current
[timeout tags] host
BASH_TIMEOUT               ETIMEDOUT transient - a bash command ran too long
DEEPSEEK_FILES_API_TIMEOUT ETIMEDOUT transient - an upload took too long
LLM_STREAM_IDLE_TIMEOUT    ETIMEDOUT transient - the model stream fell silent
LSP_CANCEL_GRACE           ETIMEDOUT transient - a language server ignored a cancel
LSP_SHUTDOWN               ETIMEDOUT transient - a language server did not shut down
MESSAGES_IDLE              ETIMEDOUT transient - the messages stream fell silent
PERSISTENT_BASH_TIMEOUT    ETIMEDOUT transient - the kept bash shell ran too long
PERSISTENT_PWSH_TIMEOUT    ETIMEDOUT transient - the kept PowerShell ran too long
SESSION_TITLE_TIMEOUT      ETIMEDOUT transient - making a title took too long
TASK_WAIT_TIMEOUT          ETIMEDOUT transient - waiting for a task took too long
[terminal] text
DUPLICATE_BACKEND EEXIST    bad-args  -   the terminal backend is registered already
DUPLICATE_NAME    EEXIST    bad-args  -   the terminal name is taken
FOREIGN_SESSION   EACCES    denied    yes the terminal belongs to another session
NO_BACKEND        ENODEV    missing   -   no terminal backend
NO_SESSION        ENOENT    missing   -   no such terminal
OWNER_NOT_LIVE    ESRCH     missing   -   the terminal's owner is gone
SEND_ACTIVE       EBUSY     transient -   another input is being sent
SERVICE_DISPOSING ESHUTDOWN missing   -   the terminal service is going away
[web] log
WEB_ABORTED                  ECANCELED  cancelled -   the request was cancelled
WEB_BLOCKED_URL              EACCES     policy    yes the host is private or blocked
WEB_DUPLICATE_PROVIDER       EEXIST     bad-args  -   the provider is registered already
WEB_FETCH_TIMEOUT            ETIMEDOUT  transient -   the page took too long
WEB_FETCH_TOO_LARGE          EFBIG      bad-args  -   the page exceeds the size cap
WEB_INVALID_URL              EINVAL     bad-args  -   not a usable address
WEB_PROVIDER_AMBIGUOUS       ENOTUNIQ   bad-args  -   several providers, none chosen
WEB_PROVIDER_CONFIGURED_MISSING ENODEV  missing   -   the chosen provider does not exist
WEB_PROVIDER_CONFIGURED_UNAVAILABLE ENODEV missing -  the chosen provider is not ready
WEB_PROVIDER_CREDENTIAL_MISSING EACCES  denied    yes the provider has no key
WEB_PROVIDER_ERROR           EREMOTEIO  transient -   the provider or the way to it failed
WEB_PROVIDER_UNAVAILABLE     ENODEV     missing   -   no provider is ready
WEB_REDIRECT_BLOCKED         EACCES     policy    yes a redirect leads where it may not
WEB_UNSUPPORTED_CONTENT_TYPE EOPNOTSUPP bad-args  -   the page is not text
[subagent] log
ACTIVATION_CLOSING         ESHUTDOWN  transient -   the child is closing; it can be woken later
ACTIVATION_LIMIT_REACHED   EAGAIN     transient -   as many children run as are allowed
ACTIVATION_SETUP_RELEASE_FAILED EIO   contract  -   the child's set-up could not be released
ACTIVATION_SETUP_REVOKED   ECANCELED  cancelled -   the child's set-up was taken back
ACTIVATION_TEARDOWN_FAILED EIO        contract  -   the child could not be taken down
CANCELLED                  ECANCELED  cancelled -   subagent or workflow was cancelled
CONTINUATION_UNAVAILABLE   ENOTCONN   missing   -   the child cannot be continued
DUPLICATE_CHILD            EEXIST     bad-args  -   the child's name is taken
DUPLICATE_PROVIDER         EEXIST     bad-args  -   subagent or question provider registered twice
INPUT_CLOSED               ESHUTDOWN  missing   -   the child takes no more input
NOT_CONTINUABLE            EOPNOTSUPP bad-args  -   this kind of child cannot be continued
NOT_RESUMABLE              ESRCH      missing   -   the child cannot be resumed
NO_PROVIDER                ENODEV     missing   -   nobody runs subagents or answers questions
PARENT_UNAVAILABLE         ESRCH      missing   -   the parent is gone
PERSISTENCE_UNAVAILABLE    ENODEV     missing   -   no session store
PRESET_UNAVAILABLE         ENODEV     missing   -   the agent preset does not exist here
SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE ENODEV missing - no session projections
SUBAGENT_CONTROL_QUERY_UNAVAILABLE ENODEV missing - no session query service
SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE ENODEV missing - no session store
UNAUTHORIZED               EACCES     denied    yes the child belongs to another parent
UNSUPPORTED_CAPABILITY     EOPNOTSUPP bad-args  -   the provider lacks the capability
[workflow] log
AGENT_CAP             EUSERS  bad-args  - the script starts too many agents
AGENT_RESULT          ECHILD  transient - an agent gave no usable result
AGENT_START           ECHILD  transient - an agent could not be started
INVALID_ARGUMENT      EINVAL  bad-args  - the script passes a wrong argument
ITEM_CAP              E2BIG   bad-args  - the script works on too many items
META_INVALID          EINVAL  bad-args  - the script's head is not well formed
RESULT_UNSERIALIZABLE EBADMSG bad-args  - the script's result is not JSON
SCRIPT_PARSE          EINVAL  bad-args  - the script cannot be parsed
[question] log
ASK_ABORTED      ECANCELED cancelled -   the question was aborted with its turn
ASK_CANCELLED    ECANCELED cancelled -   the user dismissed the question
ASK_TIMED_OUT    ETIMEDOUT transient -   nobody answered in time
BAD_ANSWER       EINVAL    bad-args  -   the answer does not fit the question
BAD_INTENT       EINVAL    bad-args  -   the intent is not known
BAD_TIMEOUT      EINVAL    bad-args  -   the time limit is not usable
CALLER_NOT_LIVE  ESRCH     missing   -   the asking agent is gone
DELEGATED_CALLER EPERM     policy    yes a delegated agent may not ask the user
DUPLICATE_WAIT   EALREADY  bad-args  -   the question is awaited already
EMPTY_QUESTIONS  EINVAL    bad-args  -   nothing was asked
REPLY_QUEUED     EALREADY  bad-args  -   a reply is on its way already
[question] host
ASK_MISSING_AGENT ESRCH missing - the question names no live agent
[goal] log
GOAL_AGENT_NOT_LIVE          ESRCH  missing         -   the goal's agent is gone
GOAL_ALREADY_EXISTS          EEXIST bad-args        -   the agent has a goal already
GOAL_INVALID_BLOCK_REASON    EINVAL bad-args        -   the reason for blocking is not usable
GOAL_INVALID_EDIT            EINVAL bad-args        -   the goal cannot be edited so
GOAL_INVALID_MAX_ROUNDS      EINVAL bad-args        -   the round limit is not usable
GOAL_INVALID_OBJECTIVE       EINVAL bad-args        -   the objective is not usable
GOAL_INVALID_TRANSITION      EINVAL bad-args        -   the goal's state does not allow this
GOAL_NOT_FOUND               ENOENT missing         -   no such goal
GOAL_STALE_REVISION          ESTALE bad-args        -   the goal changed meanwhile
GOAL_TOOL_AGENT_REQUIRED     EINVAL contract        -   the goal tool was called without an agent
GOAL_TOOL_AUTHORITY_REQUIRED EPERM  denied          yes only the user may change this goal
GOAL_TOOL_BLOCK_THRESHOLD    EAGAIN transient       -   too early to call the goal blocked
GOAL_TOOL_DRIVER_REQUIRED    ENODEV missing         -   nothing drives the goal
GOAL_TOOL_INVALID_UPDATE     EINVAL bad-args        -   the update is not usable
GOAL_TOOL_RESUME_PAUSED      EBUSY  bad-args        -   the goal is paused
model-reported               -      unknown-outcome -   blocked: the model says it cannot go on
prompt-rejected              EPERM  policy          yes blocked: the next prompt was refused
queue-failed                 EIO    unknown-outcome -   blocked: the next prompt was not queued
round-limit                  EDQUOT exhausted       -   blocked: all rounds are used up
[language server] log
LSP_CONFLICT              EBUSY      bad-args - two servers claim the same files
LSP_DISPOSED              ESHUTDOWN  missing  - the server is gone
LSP_INVALID_PROVIDER      EINVAL     contract - the server's registration is not usable
LSP_MALFORMED_RESPONSE    EBADMSG    contract - the server's answer cannot be read
LSP_UNAVAILABLE           ENODEV     missing  - no server for this file
LSP_UNSUPPORTED_OPERATION EOPNOTSUPP bad-args - the server cannot do this
LSP_WORKSPACE_REQUIRED    EINVAL     bad-args - the call names no workspace
[team] log
TEAM_DISPOSAL_TIMEOUT        ETIMEDOUT unknown-outcome -   the team was not taken down in time
TEAM_DISPOSED                ESHUTDOWN missing         -   the team is gone
TEAM_INVALID_ARGUMENT        EINVAL    bad-args        -   an argument is not usable
TEAM_INVALID_CONFIG          EINVAL    bad-args        -   the team's configuration is not usable
TEAM_INVALID_MEMBER_NAME     EINVAL    bad-args        -   the member's name is not usable
TEAM_INVALID_TARGET          EINVAL    bad-args        -   the receiver is not usable
TEAM_INVALID_TIMEOUT         EINVAL    bad-args        -   the time limit is not usable
TEAM_INVALID_WRITE_SCOPE     EINVAL    bad-args        -   the write scope is not usable
TEAM_LEAD_REQUIRED           EACCES    denied          yes only the lead may do this
TEAM_MAILBOX_FULL            ENOSPC    exhausted       -   the receiver's mailbox is full
TEAM_MEMBER_LIMIT            ENOSPC    exhausted       -   the team has as many members as allowed
TEAM_MEMBER_NAME_TAKEN       EEXIST    bad-args        -   the member's name is taken
TEAM_MEMBER_NOT_FOUND        ENOENT    missing         -   no such member
TEAM_MESSAGE_TOO_LARGE       EMSGSIZE  bad-args        -   the message exceeds the size cap
TEAM_NOT_MEMBER              EACCES    denied          yes the caller is no member
TEAM_PROVISIONING_CONFLICT   EBUSY     transient       -   the team is being set up by another call
TEAM_SELF_MESSAGE            EINVAL    bad-args        -   a message to oneself
TEAM_TASK_ALREADY_CLAIMED    EBUSY     transient       -   another member works on the task
TEAM_TASK_BLOCKED            EBUSY     transient       -   the task waits for others
TEAM_TASK_DELETED            ENOENT    missing         -   the task was deleted
TEAM_TASK_DEPENDENCY_CYCLE   ELOOP     bad-args        -   the tasks would wait for each other
TEAM_TASK_HAS_DEPENDENTS     EBUSY     bad-args        -   other tasks wait for this one
TEAM_TASK_INVALID_TRANSITION EINVAL    bad-args        -   the task's state does not allow this
TEAM_TASK_LIMIT              ENOSPC    exhausted       -   the team has as many tasks as allowed
TEAM_TASK_NOT_FOUND          ENOENT    missing         -   no such task
TEAM_TASK_STALE_REVISION     ESTALE    bad-args        -   the task changed meanwhile
TEAM_TASK_UNAUTHORIZED       EACCES    denied          yes the task belongs to another member
TEAM_WAIT_ABORTED            ECANCELED cancelled       -   waiting was cancelled
[session query] log
SESSION_QUERY_ABORTED         ECANCELED  cancelled       -   the query was cancelled
SESSION_QUERY_CORRUPT_SESSION EBADMSG    contract        -   the stored session is damaged
SESSION_QUERY_EVENT_NOT_FOUND ENOENT     missing         -   no such event
SESSION_QUERY_INDEX_FAILED    EIO        transient       -   the index could not be built
SESSION_QUERY_INVALID_CONFIG  EINVAL     bad-args        -   the configuration is not usable
SESSION_QUERY_INVALID_CURSOR  EINVAL     bad-args        -   the cursor is not usable
SESSION_QUERY_INVALID_FILTER  EINVAL     bad-args        -   the filter is not usable
SESSION_QUERY_INVALID_LIMIT   EINVAL     bad-args        -   the limit is not usable
SESSION_QUERY_INVALID_LINEAGE EBADMSG    contract        -   parents of the session do not fit
SESSION_QUERY_INVALID_QUERY   EINVAL     bad-args        -   the query is not usable
SESSION_QUERY_INVALID_SURFACE EBADMSG    contract        -   the session's surface does not fit
SESSION_QUERY_INVALID_WINDOW  EINVAL     bad-args        -   the range is not usable
SESSION_QUERY_PERSISTENCE_FAILED EIO     transient       -   the store failed
SESSION_QUERY_SEARCH_DISABLED EOPNOTSUPP missing         -   full text search is switched off
SESSION_QUERY_SESSION_NOT_FOUND ENOENT   missing         -   no such session
SESSION_QUERY_SOURCE_CONFLICT EBUSY      transient       -   the session changed while being read
SESSION_QUERY_STALE_CURSOR    ESTALE     bad-args        -   the cursor is outdated
SESSION_QUERY_TOOL_FAILED     EIO        unknown-outcome -   the query tool failed otherwise
SESSION_QUERY_TOOL_MISSING_AGENT ESRCH   missing         -   the tool was called without an agent
SESSION_QUERY_TOOL_NO_CURRENT_STEP EINVAL contract       -   the tool was called outside a step
SESSION_QUERY_TOOL_UNAUTHORIZED EACCES   denied          yes the session is not the caller's to read
[attachment] text
ATTACHMENT_CORRUPT           EBADMSG    contract  - the stored attachment is damaged
ATTACHMENT_FILES_UNSUPPORTED EOPNOTSUPP bad-args  - files cannot be attached here
ATTACHMENT_NOT_FOUND         ENOENT     missing   - no such attachment
ATTACHMENT_PROJECTION_UNSUPPORTED EOPNOTSUPP bad-args - this view of an attachment does not exist
ATTACHMENT_READ_FAILED       EIO        transient - the attachment could not be read
ATTACHMENT_WRITE_FAILED      EIO        transient - the attachment could not be stored
IMAGES_TOO_LARGE             EFBIG      bad-args  - the images together exceed the size cap
IMAGE_DIMENSION_TOO_LARGE    EFBIG      bad-args  - the image is too wide or too high
IMAGE_TOO_LARGE              EFBIG      bad-args  - the image exceeds the size cap
IMAGE_TOO_MANY_PIXELS        EFBIG      bad-args  - the image has too many pixels
IMAGE_TYPE_MISMATCH          EILSEQ     bad-args  - the image is not of the type it claims
INVALID_ATTACHMENT_REF       EINVAL     bad-args  - the reference is not well formed
INVALID_FILE_BASE64          EINVAL     bad-args  - the file's base64 cannot be read
INVALID_IMAGE                EINVAL     bad-args  - the image cannot be read
INVALID_IMAGE_BASE64         EINVAL     bad-args  - the image's base64 cannot be read
TOO_MANY_IMAGES              E2BIG      bad-args  - more images than allowed
UNSUPPORTED_IMAGE_TYPE       EOPNOTSUPP bad-args  - images of this type are not taken
[session reference] text
SESSION_REFERENCE_BUDGET_EXCEEDED ENOSPC exhausted - the referenced text exceeds the budget
SESSION_REFERENCE_CANCELLED   ECANCELED cancelled - reading was cancelled
SESSION_REFERENCE_INVALID_CONFIG EINVAL bad-args  - the configuration is not usable
SESSION_REFERENCE_INVALID_REFERENCE EINVAL bad-args - the reference is not well formed
SESSION_REFERENCE_READ_FAILED EIO       transient - the session could not be read
SESSION_REFERENCE_SELF_REFERENCE ELOOP  bad-args  - a session refers to itself
SESSION_REFERENCE_TOO_MANY    E2BIG     bad-args  - more references than allowed
[schedule] text
corrupt_schedule_log  EBADMSG contract        - the stored schedule is damaged
frequency_too_high    EINVAL  bad-args        - the schedule fires too often
internal_error        EIO     contract        - the scheduler failed inside
invalid_prompt        EINVAL  bad-args        - the prompt is not usable
invalid_rule          EINVAL  bad-args        - the repetition rule is not usable
invalid_selector      EINVAL  bad-args        - the selector is not usable
invalid_time_zone     EINVAL  bad-args        - no such time zone
not_future            EINVAL  bad-args        - the time has passed
persistence_uncertain EINTR   unknown-outcome - the change may or may not be stored
schedule_not_found    ENOENT  missing         - no such schedule
time_out_of_range     ERANGE  bad-args        - the time lies outside what is allowed
[compaction command] text
busy        EBUSY     transient       - the session is working
cancelled   ECANCELED cancelled       - compaction or host request was cancelled
changed     ESTALE    bad-args        - the session changed meanwhile
commit      EIO       unknown-outcome - the summary was made, putting it in failed
persistence EIO       unknown-outcome - the summary was put in, saving it failed
summary     EIO       transient       - the summary could not be made
[session fork] host
INVALID_BOUNDARY       EINVAL bad-args  - no turn ends there
OPEN_TURN              EBUSY  transient - a turn is still open
SESSION_ALREADY_EXISTS EEXIST bad-args  - the session id is taken
SESSION_NOT_FOUND      ENOENT missing   - no such session
SESSION_NOT_LIVE       ESRCH  missing   - the session is not loaded
[storage] host
already-open      EBUSY      transient - another holder has it open
backend-not-found ENODEV     missing   - no such storage backend
closed            ESHUTDOWN  missing   - the store is closed
duplicate-backend EEXIST     bad-args  - the backend is registered already
duplicate-mount   EEXIST     bad-args  - the place is mounted already
facet-unsupported EOPNOTSUPP bad-args  - the backend lacks the facet
form-not-mounted  ENODEV     missing   - nothing is mounted for this form
invalid-record    EINVAL     bad-args  - the record breaks its schema
malformed-medium  EBADMSG    contract  - what is stored cannot be read
missing-key       ENOENT     missing   - the record's key does not exist
version-mismatch  EPROTO     contract  - stored by another version
[authorization] host
ALREADY_IN_FLIGHT   EALREADY transient -   a sign-in is under way
DECLINED            EPERM    denied    yes the user declined the sign-in
DUPLICATE_FLOW      EEXIST   bad-args  -   the sign-in flow is registered already
NOT_COMMITTED       EACCES   denied    yes the sign-in left no stored credential
NO_FLOW             ENOENT   missing   -   no such sign-in flow
UNKNOWN_METHOD      ENOSYS   missing   -   no such method
credential-rejected EACCES   denied    yes the credential was not accepted
[host] host
SETTINGS_CONFLICT       ESTALE   bad-args        -   the settings changed meanwhile
agent-busy              EBUSY    transient       -   the agent is working
attachment-error        EINVAL   bad-args        -   an attachment is not usable
bad-request             EINVAL   bad-args        -   the request is not well formed
directory-create-failed EIO      unknown-outcome -   the directory was not created, reason open
directory-exists        EEXIST   bad-args        -   the directory exists already
directory-unreadable    EACCES   denied          yes the directory cannot be read
fork-unavailable        ENODEV   missing         -   the session cannot be forked here
handler-error           EIO      unknown-outcome -   a plugin's handler failed
internal                EIO      contract        -   the host failed inside
method-not-found        ENOSYS   missing         -   the plugin has no such method
model-unavailable       ENODEV   missing         -   the model cannot be used now
note-blank              EINVAL   bad-args        -   the feedback note is empty
note-too-large          EMSGSIZE bad-args        -   the feedback note exceeds the size cap
plugin-not-running      ESRCH    missing         -   the plugin is not running
queue-item-not-found    ENOENT   missing         -   no such queued prompt
session-conflict        EBUSY    transient       -   another holder works on the session
session-not-found       ENOENT   missing         -   no such session
stale-run               ESTALE   bad-args        -   the plugin was restarted meanwhile
steer-unavailable       ENODEV   missing         -   the turn cannot be steered
target-not-found        ENOENT   missing         -   no such message to give feedback on
title-invalid           EINVAL   bad-args        -   the title is not usable
version-conflict        ESTALE   bad-args        -   the feedback changed meanwhile
[host] text
ATTACHMENT_NOT_REFERENCED     ENOENT     missing  - no message refers to the attachment
MODEL_DOES_NOT_SUPPORT_IMAGES EOPNOTSUPP bad-args - the model takes no images
QUEUE_EDIT_NON_TEXT           EINVAL     bad-args - only queued text can be edited
SUBAGENT_IMAGE_UNSUPPORTED    EOPNOTSUPP bad-args - the child takes no images
[findings] host
ADVICE     EPROTO  contract - what a check advises against: legal, but people get hurt
LOG_DAMAGE EBADMSG contract - a log is damaged: bytes or lines of it cannot be read
"""
"""All groups, in the order they are shown."""

# Names of errno.h, and of Node's resolver and clients, by family. A name that stands nowhere here
# takes the family of an unknown code.
ERRNO_FAMILIES: Final[dict[str, str]] = {
    "missing": """ENOENT ENOTDIR ENODEV ENXIO ESRCH ENOSYS ENODATA ENOMEDIUM ELIBACC ENOPKG
        ENOTFOUND EAI_NONAME""",
    "denied": """EACCES EPERM ENOKEY EKEYEXPIRED EKEYREJECTED EKEYREVOKED EAUTH ENEEDAUTH""",
    "policy": "EROFS",
    "transient": """EAGAIN EWOULDBLOCK EBUSY ETXTBSY EDEADLK EDEADLOCK ERESTART EIO EREMOTEIO ETIME
        ETIMEDOUT ECONNRESET ECONNREFUSED ECONNABORTED ENETDOWN ENETUNREACH ENETRESET EHOSTDOWN
        EHOSTUNREACH ENOTCONN ESHUTDOWN EPIPE ENOLINK ENONET ECOMM EAI_AGAIN ESOCKETTIMEDOUT
        ETIMEOUT""",
    "exhausted": """ENOSPC EDQUOT EMFILE ENFILE ENOMEM ENOBUFS ENOLCK ENOSR EMLINK EUSERS
        EPROCLIM""",
    "bad-args": """EINVAL EISDIR EEXIST ENOTEMPTY ENAMETOOLONG E2BIG EFBIG EMSGSIZE EOVERFLOW ERANGE
        EDOM EILSEQ ELOOP EXDEV EBADF EFAULT ENOEXEC ENOTTY ESPIPE ENOTBLK ENOTSOCK EISCONN ECHILD
        EDESTADDRREQ EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EPFNOSUPPORT EPROTONOSUPPORT EPROTOTYPE
        ESOCKTNOSUPPORT ENOPROTOOPT EOPNOTSUPP ENOTSUP ENOMSG ENOTUNIQ ESTALE EBADFD EISNAM ENOTNAM
        EMEDIUMTYPE EFTYPE""",
    "cancelled": "ECANCELED ECANCELLED",
    "unknown-outcome": "EINTR EINPROGRESS EALREADY",
    "contract": "EBADMSG EPROTO ENOTRECOVERABLE EOWNERDEAD EUCLEAN ELIBBAD",
}

_WORD = r"(?<![A-Z0-9])"
_KEY = r"(?:CREDENTIALS?|API_KEY|TOKEN)"
_LACKING = r"(?:MISSING|INVALID|EXPIRED|REJECTED|REVOKED|REQUIRED)"

# How a code that stands in no table is classed. Tried in this order: a rule may rely on what those
# above it have taken.
SPELLINGS: Final[tuple[tuple[str, str], ...]] = (
    ("transient", r"^HTTP_(?:408|425|429|5[0-9]{2})$"),
    ("denied", r"^HTTP_(?:401|403|407)$"),
    ("exhausted", r"^HTTP_402$"),
    ("missing", r"^HTTP_(?:404|410)$"),
    ("bad-args", r"^HTTP_4[0-9]{2}$"),
    ("contract", r"^HTTP_[0-9]+$"),  # a status that is no failure was taken for one
    ("sandbox-broken", _WORD + r"SANDBOX_(?:\w+_)?(?:UNAVAILABLE|BROKEN)$"),
    ("transient", _WORD + r"(?:RATE_LIMIT(?:ED|_EXCEEDED)?|TOO_MANY_REQUESTS|OVERLOADED)$"),
    ("transient", _WORD + r"(?:BAD_GATEWAY|(?:SERVICE|TEMPORARILY)_UNAVAILABLE)$"),
    ("denied", _WORD + rf"(?:{_KEY}_{_LACKING}|{_LACKING}_{_KEY})$"),
    ("denied", _WORD + r"(?:SIGN_IN|LOGIN|AUTH|AUTHORITY|PERMISSION)_REQUIRED$"),
    ("policy", _WORD + r"(?:SANDBOX|POLICY|APPROVAL)_(?:\w+_)?(?:DENIED|REQUIRED)$"),
    ("policy", _WORD + r"(?:BLOCKED|REJECTED|NOT_ALLOWED|DISALLOWED)$"),
    ("denied", _WORD + r"(?:UNAUTHORIZED|UNAUTHENTICATED|FORBIDDEN|DENIED)$"),
    ("missing", _WORD + r"(?:NOT_FOUND|MISSING|NOT_LIVE|DISPOSED|UNAVAILABLE)$"),
    ("bad-args", _WORD + r"(?:INVALID|BAD|UNSUPPORTED|DUPLICATE|AMBIGUOUS|STALE)(?![A-Z0-9])"),
    ("bad-args", _WORD + r"(?:TOO_(?:LARGE|LONG|MANY)|EXISTS|TAKEN)$"),
    ("cancelled", _WORD + r"(?:ABORTED|CANCELLED|CANCELED)$"),
    ("transient", _WORD + r"(?:TIMEOUT|TIMED_OUT|BUSY)$"),
    ("exhausted", _WORD + r"(?:(?:LIMIT|QUOTA|BUDGET)(?:_REACHED|_EXCEEDED)?|FULL)$"),
    ("contract", _WORD + r"(?:MALFORMED|CORRUPT|CORRUPTED|INVARIANT)(?![A-Z0-9])"),
)

# Codes that name no cause; the text often does.
UNSPECIFIC: Final = frozenset({"UNKNOWN", "PI_AI_ERROR", "SEARCH_FAILED", "FS_IO_ERROR"})
# Codes that stand for two system errors, told apart by words of the text; the family is the same.
FINER: Final[dict[str, tuple[str, str]]] = {
    "FS_NOT_FOUND": ("segment is not a directory", "ENOTDIR"),
    "FS_SANDBOX_DENIED": ("denied under read-only mode", "EROFS"),
}

ACCESS_DENIED: Final = r"\[sandbox: file access denied under [\w-]{1,40} mode\]"
_ESCALATION = r'sandbox escalation to "[^"]{1,64}"'
_ASKS = rf'(?:{_ESCALATION}|tool "[^"]{{1,256}}") requires approval'

# Failures that come without a code, by the words their message begins with; the first one counts.
MARKERS: Final[tuple[tuple[str, str], ...]] = (
    (ACCESS_DENIED, "FS_SANDBOX_DENIED"),
    (r'sandbox mode "[^"]{1,64}" is requested but no sandbox backend is', "SANDBOX_UNAVAILABLE"),
    (rf"{_ESCALATION} is not strictly wider than ", "ESCALATION_NOT_WIDER"),
    (rf"{_ASKS}, but (?:no approval|the call has no agent)", "APPROVAL_UNAVAILABLE"),
    (
        rf"the user rejected (?:escalating|tool|this) |{_ASKS}, but .*\brejected\b",
        "APPROVAL_REJECTED",
    ),
    (r"approval for .* was cancelled", "APPROVAL_CANCELLED"),
    (_ASKS, "APPROVAL_REQUIRED"),
    (r'unknown tool "', "UNKNOWN_TOOL"),
)
