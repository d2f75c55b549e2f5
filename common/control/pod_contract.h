#pragma once

// The names that the operator, the agent and the launcher share about a job's Pods: environment
// variables, paths, ports and items of the job's Secret. The operator writes them and the other two
// read them; all include this header.

namespace ringmaster::control {

// --- environment of both kinds of Pod
// ---------------------------------------------------------------------------
inline constexpr char kEnvJobName[] = "RINGMASTER_JOB_NAME";
inline constexpr char kEnvNamespace[] = "RINGMASTER_NAMESPACE";
inline constexpr char kEnvJobUid[] = "RINGMASTER_JOB_UID";
inline constexpr char kEnvPodName[] = "RINGMASTER_POD_NAME";    // downward API
inline constexpr char kEnvPodUid[] = "RINGMASTER_POD_UID";      // downward API
inline constexpr char kEnvNodeName[] = "RINGMASTER_NODE_NAME";  // downward API
// A LaunchSpec (launch_spec.h) as JSON: what the user asked every rank to run, and how.
inline constexpr char kEnvLaunchSpec[] = "RINGMASTER_LAUNCH_SPEC";
// JSON object {item: lower-case hex SHA-256} of every Secret item this Pod mounts. Agent and
// launcher compare at start and fail with CredentialsMismatch.
inline constexpr char kEnvItemHashes[] = "RINGMASTER_ITEM_SHA256";

// From spec.faultTolerance, if set: a program's time between SIGTERM and SIGKILL.
inline constexpr char kEnvStopGraceSeconds[] = "RINGMASTER_STOP_GRACE_SECONDS";

// --- environment of worker Pods
// ---------------------------------------------------------------------------------
inline constexpr char kEnvWorkerIndex[] = "RINGMASTER_WORKER_INDEX";
inline constexpr char kEnvGpus[] = "RINGMASTER_GPUS";  // GPUs of the Pod; absent: none
// The most ranks that the job may grow to: spec.worker.maxReplicas times the slots; absent: no
// limit.
inline constexpr char kEnvMaxRanks[] = "RINGMASTER_MAX_RANKS";
inline constexpr char kEnvLauncherAddress[] =
    "RINGMASTER_LAUNCHER_ADDRESS";  // the Service's ClusterIP, no DNS
inline constexpr char kEnvLauncherPort[] =
    "RINGMASTER_LAUNCHER_PORT";  // kControlPort unless a test moves it

// From spec.checkpoint: mount path of the volume, steps between checkpoints, and the number of
// complete ones to keep.
inline constexpr char kEnvCheckpointDir[] = "RINGMASTER_CHECKPOINT_DIR";
inline constexpr char kEnvCheckpointEvery[] = "RINGMASTER_CHECKPOINT_EVERY";
inline constexpr char kEnvCheckpointKeep[] = "RINGMASTER_CHECKPOINT_KEEP";
// From its restoreFrom: at most one of the two is set.
inline constexpr char kEnvRestoreJob[] = "RINGMASTER_CHECKPOINT_RESTORE_JOB";
inline constexpr char kEnvRestorePath[] = "RINGMASTER_CHECKPOINT_RESTORE_PATH";
inline constexpr char kCheckpointDir[] = "/ringmaster/checkpoints";

// From spec.dataCache: mount path of the source, the part of it to copy (empty: all), and the
// memory volume that the agent fills with it before its ranks load. Ranks read their data from
// kEnvDataDir unless their command line sets a path.
inline constexpr char kEnvDataSource[] = "RINGMASTER_DATA_SOURCE";
inline constexpr char kEnvDataSubPath[] = "RINGMASTER_DATA_SUB_PATH";
inline constexpr char kEnvDataDir[] = "RINGMASTER_DATA_DIR";
inline constexpr char kDataSourceDir[] = "/ringmaster/data-source";
inline constexpr char kDataDir[] = "/ringmaster/data";

// From spec.faultTolerance, if set: how long a rank may load; how long ranks of a job in mode
// InPlace may take to connect, and may wait for each other in a step.
inline constexpr char kEnvLoadLimitMillis[] = "RINGMASTER_LOAD_LIMIT_MILLIS";
inline constexpr char kEnvConnectTimeoutSeconds[] = "RINGMASTER_CONNECT_TIMEOUT_SECONDS";

// --- environment of the launcher Pod
// ----------------------------------------------------------------------------
inline constexpr char kEnvTerm[] = "RINGMASTER_TERM";  // the launcher's term at the Pod's creation
// spec.runPolicy.restart, where the job has it: how many ranks may end by themselves within how
// long.
inline constexpr char kEnvRestartLimit[] = "RINGMASTER_RESTART_LIMIT";
inline constexpr char kEnvRestartWindowSeconds[] = "RINGMASTER_RESTART_WINDOW_SECONDS";
// How many times in a row ranks may be killed without a committed step.
inline constexpr char kEnvCrashLimit[] = "RINGMASTER_CRASH_LIMIT";
// Exit codes of ranks, with commas between: the job fails at once; the end is not counted.
inline constexpr char kEnvFailOnExitCodes[] = "RINGMASTER_FAIL_ON_EXIT_CODES";
inline constexpr char kEnvIgnoreExitCodes[] = "RINGMASTER_IGNORE_EXIT_CODES";
// From spec.faultTolerance, if set: the time after which a silent worker is lost, and the minimum
// time without progress after which a rank is considered hung (stall_watch.h), 0: never.
inline constexpr char kEnvLostAfterMillis[] = "RINGMASTER_LOST_AFTER_MILLIS";
inline constexpr char kEnvStallMillis[] = "RINGMASTER_STALL_MILLIS";
// spec.scheduling.startWaitSeconds, where the job sets it.
inline constexpr char kEnvStartWaitSeconds[] = "RINGMASTER_START_WAIT_SECONDS";

// --- environment that tests and plain hosts may set; in a Pod the defaults below hold
// ----------------------------
inline constexpr char kEnvCredentialsDir[] = "RINGMASTER_CREDENTIALS_DIR";
inline constexpr char kEnvRuntimeDir[] = "RINGMASTER_RUNTIME_DIR";
inline constexpr char kEnvTerminationLog[] = "RINGMASTER_TERMINATION_LOG";
inline constexpr char kEnvControlPort[] = "RINGMASTER_CONTROL_PORT";
inline constexpr char kEnvApiPort[] = "RINGMASTER_API_PORT";
// For the launcher: how often both sides say that they live.
inline constexpr char kEnvHeartbeatMillis[] = "RINGMASTER_HEARTBEAT_MILLIS";

// For the agent: where it makes a folder of its own for its ranks' snapshots; in a rank, that
// folder.
inline constexpr char kEnvSnapshotDir[] = "RINGMASTER_SNAPSHOT_DIR";
inline constexpr char kSnapshotDir[] = "/dev/shm";

// For the agent: the library by which it asks the driver for GPUs, as dlopen() takes it.
inline constexpr char kEnvNvmlLibrary[] = "RINGMASTER_NVML_LIBRARY";
inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

inline constexpr char kCredentialsDir[] =
    "/etc/ringmaster/credentials";                        // the Secret's items, mode 0440
inline constexpr char kRuntimeDir[] = "/tmp/ringmaster";  // sockets, copied keys, sshd_config
inline constexpr char kTerminationLog[] = "/dev/termination-log";

// Set by an agent for its processes and its sshd's sessions (sshd_config SetEnv): its unix
// socket.
inline constexpr char kEnvAgentSocket[] = "RINGMASTER_AGENT_SOCKET";
// Set by an agent for its ranks only: their slot, 0 … slots per worker - 1.
inline constexpr char kEnvSlot[] = "RINGMASTER_SLOT";
// ... and which protocol it speaks (protocol_version.h), for ranks of another release.
inline constexpr char kEnvProtocol[] = "RINGMASTER_PROTOCOL";
// ... and the UUID of their GPU, if the driver lists one: CUDA_VISIBLE_DEVICES names only
// it.
inline constexpr char kEnvGpuUuid[] = "RINGMASTER_GPU_UUID";
// ... and the file in which they say where they stand (position_page.h).
inline constexpr char kEnvPositionPage[] = "RINGMASTER_POSITION_PAGE";

// --- ports of the launcher Pod
// ----------------------------------------------------------------------------------
inline constexpr int kControlPort = 8470;  // agents: TLS, one JSON object a line (messages.h)
inline constexpr int kApiPort = 8471;      // operator: HTTPS (launcher_api.h)

// --- items of the job's Secret; a Pod mounts only those of its role
// ----------------------------------------------
inline constexpr char kItemSshUserKey[] = "ssh-user-key";  // launcher: OpenSSH private key, Ed25519
inline constexpr char kItemSshUserPublicKey[] =
    "ssh-user-key.pub";  // worker: becomes authorized_keys
inline constexpr char kItemSshHostKey[] =
    "ssh-host-key";  // worker: one host key for the job's workers
inline constexpr char kItemSshHostPublicKey[] =
    "ssh-host-key.pub";                                   // launcher: pinned in known_hosts
inline constexpr char kItemTlsKey[] = "tls.key";          // launcher: PEM, Ed25519
inline constexpr char kItemTlsCertificate[] = "tls.crt";  // both: self-signed, the only one trusted
inline constexpr char kItemAgentToken[] = "agent-token";  // both
inline constexpr char kItemOperatorToken[] = "operator-token";  // launcher

// The name in the launcher's certificate is kTlsNamePrefix + <job uid> + kTlsNameSuffix.
inline constexpr char kTlsNamePrefix[] = "launcher.";
inline constexpr char kTlsNameSuffix[] = ".ringmaster.dev";

// The container of each Pod that Ringmaster manages; a template names it to add resources, mounts
// or variables.
inline constexpr char kWorkerContainer[] = "worker";
inline constexpr char kLauncherContainer[] = "launcher";

// The folder into which an init container copies these programs, if the Pod's image lacks them.
inline constexpr char kToolsFolder[] = "/ringmaster/tools";

// The folder of the Python package, below the folder whose bin has these programs: Python searches
// it first.
inline constexpr char kPythonFolder[] = "lib/ringmaster/python";

// Programs in the worker image.
inline constexpr char kAgentProgram[] = "ringmaster-agent";
inline constexpr char kAttachProgram[] = "ringmaster-attach";
inline constexpr char kLauncherProgram[] = "ringmaster-launcher";
inline constexpr char kRshProgram[] = "ringmaster-rsh";
inline constexpr char kTrainProgram[] = "ringmaster-train";
// The agent's flag in the Pod that removes a deleted job's checkpoints.
inline constexpr char kRemoveCheckpointsFlag[] = "--remove-checkpoints";

// The text that attach prints in its line when it exits with kExitNoAgent; the launcher also looks
// for it in mpirun's last output.
inline constexpr char kNoAgentText[] = "found no agent on this host";

}  // namespace ringmaster::control
