#pragma once

// The names that the operator, the agent and the launcher share about a job's Pods: environment
// variables, paths, ports and items of the job's Secret. The operator writes them, and the agent
// and the launcher read them.

namespace ringmaster::control {

// --- environment variables of both kinds of Pod
// ---------------------------------------------------------------------------
inline constexpr char kEnvJobName[] = "RINGMASTER_JOB_NAME";
inline constexpr char kEnvNamespace[] = "RINGMASTER_NAMESPACE";
inline constexpr char kEnvJobUid[] = "RINGMASTER_JOB_UID";
inline constexpr char kEnvPodName[] = "RINGMASTER_POD_NAME";    // downward API
inline constexpr char kEnvPodUid[] = "RINGMASTER_POD_UID";      // downward API
inline constexpr char kEnvNodeName[] = "RINGMASTER_NODE_NAME";  // downward API
// A LaunchSpec (launch_spec.h) as JSON: the program that every rank runs, and how to start it.
inline constexpr char kEnvLaunchSpec[] = "RINGMASTER_LAUNCH_SPEC";
// A JSON object {item: lower-case hex SHA-256} for the Secret items that this Pod mounts. Agent and
// launcher check the items at start, and fail with CredentialsMismatch if a hash differs.
inline constexpr char kEnvItemHashes[] = "RINGMASTER_ITEM_SHA256";

// From spec.faultTolerance, if set: the time between SIGTERM and SIGKILL for a program.
inline constexpr char kEnvStopGraceSeconds[] = "RINGMASTER_STOP_GRACE_SECONDS";

// --- environment variables of worker Pods
// ---------------------------------------------------------------------------------
inline constexpr char kEnvWorkerIndex[] = "RINGMASTER_WORKER_INDEX";
inline constexpr char kEnvGpus[] = "RINGMASTER_GPUS";  // number of GPUs of the Pod; absent: none
// The maximum number of ranks of the job: spec.worker.maxReplicas times the slots per worker.
// Not set if the job has no maximum.
inline constexpr char kEnvMaxRanks[] = "RINGMASTER_MAX_RANKS";
inline constexpr char kEnvLauncherAddress[] =
    "RINGMASTER_LAUNCHER_ADDRESS";  // the Service's ClusterIP, so that DNS is not needed
inline constexpr char kEnvLauncherPort[] =
    "RINGMASTER_LAUNCHER_PORT";  // kControlPort unless a test changes it

// From spec.checkpoint: mount path of the volume, steps between checkpoints, and the number of
// complete checkpoints to keep.
inline constexpr char kEnvCheckpointDir[] = "RINGMASTER_CHECKPOINT_DIR";
inline constexpr char kEnvCheckpointEvery[] = "RINGMASTER_CHECKPOINT_EVERY";
inline constexpr char kEnvCheckpointKeep[] = "RINGMASTER_CHECKPOINT_KEEP";
// From spec.checkpoint.restoreFrom: at most one of these two variables is set.
inline constexpr char kEnvRestoreJob[] = "RINGMASTER_CHECKPOINT_RESTORE_JOB";
inline constexpr char kEnvRestorePath[] = "RINGMASTER_CHECKPOINT_RESTORE_PATH";
inline constexpr char kCheckpointDir[] = "/ringmaster/checkpoints";

// From spec.dataCache: the mount path of the source, the part of it to copy (empty: all), and the
// memory volume into which the agent copies it before its ranks load. Ranks read their data from
// kEnvDataDir unless their command line sets a path.
inline constexpr char kEnvDataSource[] = "RINGMASTER_DATA_SOURCE";
inline constexpr char kEnvDataSubPath[] = "RINGMASTER_DATA_SUB_PATH";
inline constexpr char kEnvDataDir[] = "RINGMASTER_DATA_DIR";
inline constexpr char kDataSourceDir[] = "/ringmaster/data-source";
inline constexpr char kDataDir[] = "/ringmaster/data";

// From spec.faultTolerance, if set: the time limit for a rank to load; and for ranks in mode
// InPlace, the time limit to connect and to wait for each other in a step.
inline constexpr char kEnvLoadLimitMillis[] = "RINGMASTER_LOAD_LIMIT_MILLIS";
inline constexpr char kEnvConnectTimeoutSeconds[] = "RINGMASTER_CONNECT_TIMEOUT_SECONDS";

// --- environment variables of the launcher Pod
// ----------------------------------------------------------------------------
inline constexpr char kEnvTerm[] = "RINGMASTER_TERM";  // the launcher's term at the Pod's creation
// From spec.runPolicy.restart, if set: the number of ranks that may exit by themselves, and the
// time window for this limit.
inline constexpr char kEnvRestartLimit[] = "RINGMASTER_RESTART_LIMIT";
inline constexpr char kEnvRestartWindowSeconds[] = "RINGMASTER_RESTART_WINDOW_SECONDS";
// How many times in a row ranks may be killed without a committed step.
inline constexpr char kEnvCrashLimit[] = "RINGMASTER_CRASH_LIMIT";
// Comma-separated exit codes: a rank's exit with one fails the job at once, or is not counted.
inline constexpr char kEnvFailOnExitCodes[] = "RINGMASTER_FAIL_ON_EXIT_CODES";
inline constexpr char kEnvIgnoreExitCodes[] = "RINGMASTER_IGNORE_EXIT_CODES";
// From spec.faultTolerance, if set: the time after which a silent worker counts as lost, and the
// minimum time without progress before a rank counts as hung (stall_watch.h); 0: never.
inline constexpr char kEnvLostAfterMillis[] = "RINGMASTER_LOST_AFTER_MILLIS";
inline constexpr char kEnvStallMillis[] = "RINGMASTER_STALL_MILLIS";
// The value of spec.scheduling.startWaitSeconds, if set.
inline constexpr char kEnvStartWaitSeconds[] = "RINGMASTER_START_WAIT_SECONDS";

// --- environment variables that tests and hosts without Kubernetes may set, and their defaults
// ----------------------------
inline constexpr char kEnvCredentialsDir[] = "RINGMASTER_CREDENTIALS_DIR";
inline constexpr char kEnvRuntimeDir[] = "RINGMASTER_RUNTIME_DIR";
inline constexpr char kEnvTerminationLog[] = "RINGMASTER_TERMINATION_LOG";
inline constexpr char kEnvControlPort[] = "RINGMASTER_CONTROL_PORT";
inline constexpr char kEnvApiPort[] = "RINGMASTER_API_PORT";
// For the launcher: the interval of heartbeats in both directions.
inline constexpr char kEnvHeartbeatMillis[] = "RINGMASTER_HEARTBEAT_MILLIS";

// For the agent: where it creates a folder for the snapshots of its ranks. For a rank: the path of
// that folder.
inline constexpr char kEnvSnapshotDir[] = "RINGMASTER_SNAPSHOT_DIR";
inline constexpr char kSnapshotDir[] = "/dev/shm";

// For the agent: the NVML library for queries to the GPU driver, as an argument of dlopen().
inline constexpr char kEnvNvmlLibrary[] = "RINGMASTER_NVML_LIBRARY";
inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";

inline constexpr char kCredentialsDir[] =
    "/etc/ringmaster/credentials";                        // the Secret's items, mode 0440
inline constexpr char kRuntimeDir[] = "/tmp/ringmaster";  // sockets, copied keys, sshd_config
inline constexpr char kTerminationLog[] = "/dev/termination-log";

// Set by an agent for its processes and for the sessions of its sshd (sshd_config SetEnv): the path
// of its unix socket.
inline constexpr char kEnvAgentSocket[] = "RINGMASTER_AGENT_SOCKET";
// Set by an agent for its ranks only: their slot, 0 … slots per worker - 1.
inline constexpr char kEnvSlot[] = "RINGMASTER_SLOT";
// Set by an agent for its ranks: the agent's protocol version, for ranks of another release.
inline constexpr char kEnvProtocol[] = "RINGMASTER_PROTOCOL";
// Set by an agent for its ranks: the UUID of their GPU, if the driver lists one. In that case
// CUDA_VISIBLE_DEVICES names only this GPU.
inline constexpr char kEnvGpuUuid[] = "RINGMASTER_GPU_UUID";
// Set by an agent for its ranks: the file for their positions (position_page.h).
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

// The container that Ringmaster manages in each Pod. A template uses this name to add resources,
// mounts or variables.
inline constexpr char kWorkerContainer[] = "worker";
inline constexpr char kLauncherContainer[] = "launcher";

// An init container copies Ringmaster's programs into this folder if the Pod's image lacks them.
inline constexpr char kToolsFolder[] = "/ringmaster/tools";

// The folder of the Python package, relative to the parent of the folder `bin` that contains the
// programs. Python searches this folder first.
inline constexpr char kPythonFolder[] = "lib/ringmaster/python";

// Programs in the worker image.
inline constexpr char kAgentProgram[] = "ringmaster-agent";
inline constexpr char kAttachProgram[] = "ringmaster-attach";
inline constexpr char kLauncherProgram[] = "ringmaster-launcher";
inline constexpr char kRshProgram[] = "ringmaster-rsh";
inline constexpr char kTrainProgram[] = "ringmaster-train";
// The agent's flag in the Pod that removes a deleted job's checkpoints.
inline constexpr char kRemoveCheckpointsFlag[] = "--remove-checkpoints";

// The text that attach prints when it exits with kExitNoAgent. The launcher also looks for this
// text in mpirun's last output.
inline constexpr char kNoAgentText[] = "found no agent on this host";

}  // namespace ringmaster::control
