#pragma once

// Condition types, states, reasons, causes and event reasons (exit codes: exit_codes.h). They are
// API: a value keeps its meaning, while messages may change. docs/render.py renders docs/reasons.md
// from this header: "---" begins a section, a comment says when a value is set and what to do.
//
// The operator, launcher and agents use these values, and tests check them rather than messages.

namespace ringmaster::api {

// --- Condition types
//
// `status.conditions` of a TrainingJob, as in `kubectl wait --for=condition=Succeeded tj/NAME`.

// The launcher Pod and all worker Pods have been created. False while the job is suspended.
inline constexpr char kCreated[] = "Created";
// All requested workers are connected to the launcher and have passed their checks. If False, the
// reason and message say what is missing.
inline constexpr char kWorkersReady[] = "WorkersReady";
// Ranks train together. False before the first world, during a pause and after the job
// ends.
inline constexpr char kRunning[] = "Running";
// The workers that train differ from the requested workers. Absent before the first world.
inline constexpr char kResizing[] = "Resizing";
// Checkpoints, snapshots and copies are kept as the job requests. The condition is added when one
// of them could not be written or read; the message says from where the job would resume.
inline constexpr char kProtected[] = "Protected";
// True: the job started from a checkpoint of another job. False: it started from its first step
// although checkpoints of an earlier job of the same name exist. Absent otherwise.
inline constexpr char kRestored[] = "Restored";
// NetworkPolicies restrict access to the job's Pods to the job itself and the operator.
inline constexpr char kNetworkIsolated[] = "NetworkIsolated";
// The job has no Pods because spec.suspend is true. Added at the first suspension.
inline constexpr char kSuspended[] = "Suspended";
// False: no operator runs the job because its installation was removed. Absent otherwise.
inline constexpr char kManaged[] = "Managed";
// The spec or its TrainingProfile changed, but the running job still uses the old values. Suspend
// and resume the job to apply the change.
inline constexpr char kChangePending[] = "ChangePending";
// Set on a deleted job with checkpoint.onDelete: Delete. The message says what the job waits for.
inline constexpr char kCheckpointsRemoved[] = "CheckpointsRemoved";
// The job has completed successfully.
inline constexpr char kSucceeded[] = "Succeeded";
// The job has failed; the reason and message say why.
inline constexpr char kFailed[] = "Failed";
// For kstatus (Helm, Flux): the job has not reached the state that its spec requests.
inline constexpr char kReconciling[] = "Reconciling";
// For kstatus: the job has failed, or its spec cannot be run (reason InvalidSpec) and it has no
// Pods until the spec is corrected.
inline constexpr char kStalled[] = "Stalled";

// --- States
//
// Values of `status.state`, for users. More may be added; programs should read the conditions.

// Pods are being created, or the launcher Pod is waiting for a node or an image.
inline constexpr char kStatePending[] = "Pending";
// The launcher is running, but no ranks run yet. The reason says what the workers wait for.
inline constexpr char kStateStarting[] = "Starting";
// Ranks are training.
inline constexpr char kStateRunning[] = "Running";
// Ranks are waiting for workers and keep their state.
inline constexpr char kStatePaused[] = "Paused";
// The job is suspended and has no Pods.
inline constexpr char kStateSuspended[] = "Suspended";
// The job has completed successfully.
inline constexpr char kStateSucceeded[] = "Succeeded";
// The job has failed.
inline constexpr char kStateFailed[] = "Failed";

// --- Reasons: the job waits for its Pods
//
// Reasons of Created, WorkersReady and Reconciling. While a container waits, the reason is that of
// the kubelet, for example ErrImagePull.

// Pods are being created. No action is needed.
inline constexpr char kReasonCreating[] = "CreatingPods";
// All Pods exist.
inline constexpr char kReasonCreated[] = "PodsCreated";
// Pods are starting, or some agents have not reported yet; the message counts them.
inline constexpr char kReasonWaitingForPods[] = "WaitingForPods";
// The launcher Pod is running but has not answered the operator yet. No action is needed.
inline constexpr char kReasonWaitingForLauncher[] = "WaitingForLauncher";
// The launcher Pod is running but does not answer the operator. Check its log and the
// NetworkPolicies between the operator and the Pod.
inline constexpr char kReasonLauncherUnreachable[] = "LauncherUnreachable";
// A Pod cannot be scheduled; the message says why and what to do.
inline constexpr char kReasonUnschedulable[] = "Unschedulable";
// A scheduled Pod does not start. Correct the cause in the message, the kubelet's latest event.
inline constexpr char kReasonPodNotStarting[] = "PodNotStarting";
// Too many nodes are not ready at once, so their workers are not replaced. Check the nodes.
inline constexpr char kReasonNodesUnreachable[] = "NodesUnreachable";
// Pods failed repeatedly, and the next attempt is delayed. `status.failures` says why they
// failed.
inline constexpr char kReasonBackOff[] = "BackOff";
// All workers are ready.
inline constexpr char kReasonWorkersReady[] = "WorkersReady";

// --- Reasons: a request was refused
//
// Reasons of WorkersReady and Reconciling. The operator retries with exponential back-off.

// A ResourceQuota of the namespace is exhausted. Free quota or raise it.
inline constexpr char kReasonQuotaExceeded[] = "QuotaExceeded";
// The namespace's Pod Security level rejects the Pods. The message names the fields.
inline constexpr char kReasonPodSecurity[] = "PodSecurityViolation";
// The API server or an admission webhook rejected a request; the message quotes it.
inline constexpr char kReasonForbidden[] = "Forbidden";
// The job's TrainingProfile does not allow what the spec requests, or the namespace has no such
// profile. Change the spec or ask the platform team.
inline constexpr char kReasonRefusedByProfile[] = "RefusedByProfile";
// An object that does not belong to the job has a name that the job needs. Delete that object or
// rename the job.
inline constexpr char kReasonNameConflict[] = "NameConflict";
// The operator failed to read or create its keyring. Check its log and its RBAC permissions.
inline constexpr char kReasonCredentialsUnavailable[] = "CredentialsUnavailable";
// The API server returned another error; the message quotes it.
inline constexpr char kReasonApiError[] = "ApiError";
// The cause is unknown.
inline constexpr char kReasonUnknown[] = "Unknown";

// --- Reasons: Running
//
// The reasons of a paused job are also used.

// Ranks are training.
inline constexpr char kReasonTraining[] = "Training";
// No ranks are running yet.
inline constexpr char kReasonStarting[] = "Starting";
// The ranks are forming a new world. No action is needed.
inline constexpr char kReasonStopping[] = "ReformingWorld";
// The job has finished. Also used for WorkersReady, Resizing, Suspended, Created and ChangePending.
inline constexpr char kReasonFinished[] = "Finished";

// --- Reasons: Resizing
//
// The reasons of a paused job are also used.

// The requested workers are training.
inline constexpr char kReasonStable[] = "Stable";
// spec.worker.replicas was raised, or the job was resumed.
inline constexpr char kReasonScalingUp[] = "ScalingUp";
// spec.worker.replicas was lowered. Also used in the annotation ringmaster.dev/leaving.
inline constexpr char kReasonScalingDown[] = "ScalingDown";
// A worker leaves after the current step because its node is being drained or its Pod was deleted.
inline constexpr char kReasonDraining[] = "Draining";
// A worker was lost and is being replaced. Also used in `status.failures`.
inline constexpr char kReasonWorkerLost[] = "WorkerLost";
// A new launcher is learning the current world from the agents.
inline constexpr char kReasonLauncherReplaced[] = "LauncherReplaced";

// --- Reasons: Suspended

// The ranks are stopping, after a checkpoint if the job keeps checkpoints.
inline constexpr char kReasonSuspending[] = "Suspending";
// The job is suspended. Also used for other conditions during the suspension.
inline constexpr char kReasonSuspended[] = "Suspended";
// The job was resumed.
inline constexpr char kReasonResumed[] = "Resumed";

// --- Reasons: Managed

// The installation that ran the job was removed. Reinstall it or delete the job.
inline constexpr char kReasonUninstalled[] = "Uninstalled";
// An installation has adopted the job.
inline constexpr char kReasonAdopted[] = "Adopted";

// --- Reasons: ChangePending

// The running job differs from its spec. The message names the fields.
inline constexpr char kReasonChangedWhileRunning[] = "ChangedWhileRunning";
// The running job matches its spec again.
inline constexpr char kReasonSpecInUse[] = "SpecInUse";

// --- Reasons: CheckpointsRemoved
//
// The reasons of a refused request are also used. Set onDelete to Retain to delete the job at once.

// The job's Pods, which write to its folder, have not terminated yet.
inline constexpr char kReasonEndingPods[] = "EndingPods";
// A Pod that removes the job's folder is running or being created.
inline constexpr char kReasonRemoving[] = "Removing";

// --- Reasons: NetworkIsolated

// The policies exist. Policies take effect only if the network plugin enforces NetworkPolicies.
inline constexpr char kReasonPoliciesCreated[] = "PoliciesCreated";
// A policy could not be created. The message says why.
inline constexpr char kReasonPoliciesMissing[] = "PoliciesMissing";
// Workers use the host network, which NetworkPolicies do not cover.
inline constexpr char kReasonHostNetwork[] = "HostNetwork";
// The operator does not create NetworkPolicies (--job-network-policies=false).
inline constexpr char kReasonPoliciesOff[] = "PoliciesOff";

// --- Reasons: Protected

// The state is saved as requested again.
inline constexpr char kReasonKept[] = "Kept";
// Checkpoints fail; if all workers are lost, the job resumes from the last complete checkpoint.
// Check the volume.
inline constexpr char kReasonCheckpointFailing[] = "CheckpointFailing";
// Snapshots in memory fail; if all ranks are lost, the job resumes from the last checkpoint.
inline constexpr char kReasonSnapshotFailing[] = "SnapshotFailing";
// No other worker has a copy of a rank's shard. If the rank is lost, the job needs a checkpoint.
inline constexpr char kReasonCopyFailing[] = "CopyFailing";
// Training waits because its saved state cannot be read or written. Check the volume.
inline constexpr char kReasonCheckpointUnreadable[] = "CheckpointUnreadable";

// --- Reasons: Restored

// The job started from the checkpoint that restoreFrom names.
inline constexpr char kReasonFromCheckpoint[] = "FromCheckpoint";
// The job started from its first step although checkpoints of an earlier job of the same name
// exist. Set restoreFrom to resume from them.
inline constexpr char kReasonStartedAfresh[] = "StartedAfresh";

// --- Reasons of failures
//
// Values of `status.failures[].reason`, in addition to WorkerLost, OOMKilled, the reasons for
// Failed below and those of Kubernetes (Evicted, Preempting, Error).

// A worker's Pod ended for an unknown reason.
inline constexpr char kReasonWorkerFailed[] = "WorkerFailed";
// The launcher Pod was lost. A new launcher takes over.
inline constexpr char kReasonLauncherLost[] = "LauncherLost";
// The launcher ran out of memory. Raise the memory limit in spec.launcher.template.
inline constexpr char kReasonLauncherOOMKilled[] = "LauncherOOMKilled";
// In mode Restart: the program restarted because its world changed or a rank died. Also an
// event.
inline constexpr char kReasonProgramRestarted[] = "ProgramRestarted";
// A GPU assigned to a rank stopped working. The worker leaves the job and is replaced, on another
// node if one has room. The message names the GPU, the CUDA error and the Xid error that the driver
// reported. Also used for an event.
inline constexpr char kReasonDeviceUnhealthy[] = "DeviceUnhealthy";
// The node of a worker was deleted.
inline constexpr char kReasonNodeLost[] = "NodeLost";
// The node of a worker is not ready, and the worker is not connected.
inline constexpr char kReasonNodeNotReady[] = "NodeNotReady";

// --- Reasons: Succeeded and Failed

// All ranks completed their last step.
inline constexpr char kReasonCompleted[] = "Completed";
// The spec cannot be run: correct the field that the message names. A job that has failed with
// this reason must be deleted and applied again.
inline constexpr char kReasonInvalidSpec[] = "InvalidSpec";
// A container cannot start, for example because a program, ConfigMap or Secret is missing. The
// message says why and what to do.
inline constexpr char kReasonStartError[] = "StartError";
// The job did not finish within spec.runPolicy.activeDeadlineSeconds.
inline constexpr char kReasonDeadlineExceeded[] = "DeadlineExceeded";
// The job completed no step within spec.runPolicy.startTimeoutSeconds, or an image could not be
// pulled. The message says what was missing.
inline constexpr char kReasonStartTimeout[] = "StartTimeout";

}  // namespace ringmaster::api

namespace ringmaster::control {

// The job started from a state in which all steps were already complete.
inline constexpr char kReasonAlreadyComplete[] = "AlreadyComplete";
// mpirun started processes other than the job's ranks. Check spec.mpi.extraArgs.
inline constexpr char kReasonWorldMismatch[] = "WorldMismatch";
// A rank failed more often than spec.runPolicy.restart allows. `status.failures` has its last lines
// of output. Also used in `status.failures` for a rank that was restarted.
inline constexpr char kReasonRankFailed[] = "RankFailed";
// A rank or Pod ran out of memory crashLimit times in a row. Raise the memory limit. Also used in
// `status.failures` and by the kubelet.
inline constexpr char kReasonOOMKilled[] = "OOMKilled";
// Ranks or Pods failed crashLimit times in a row. Correct the cause in the message and apply again.
inline constexpr char kReasonCrashLoop[] = "CrashLoop";
// A rank exited with code 2: the program rejects its arguments or data. Correct them.
inline constexpr char kReasonUserError[] = "UserError";
// A check of a worker failed: program, GPUs, memory or address. The message names the check and the
// node. Also used for WorkersReady while the job may still continue.
inline constexpr char kReasonPreflightFailed[] = "PreflightFailed";
// A Pod mounts credentials that the operator did not create for this job: its Secret was changed.
inline constexpr char kReasonCredentialsMismatch[] = "CredentialsMismatch";
// mpirun failed to start, or exited before all ranks were running. The message contains its output.
inline constexpr char kReasonMpirunFailed[] = "MpirunFailed";
// The launcher failed. The message says why.
inline constexpr char kReasonLauncherError[] = "LauncherError";

// --- Reasons: the job is paused
//
// Reasons of Running and Resizing.

// At least half of the last world's Pods are missing but not known to be dead, so they might still
// be training. Training pauses until they return or are confirmed gone.
inline constexpr char kPauseNoQuorum[] = "NoQuorum";
// Fewer than spec.worker.minReplicas workers are available. Training pauses until there are enough.
inline constexpr char kPauseBelowMinReplicas[] = "BelowMinReplicas";

// --- Causes of a recovery
//
// Values of `status.lastRecovery.cause`: how the first worker or rank was lost. OOMKilled is also a
// cause, and more may be added.

// A rank was killed by a signal.
inline constexpr char kCauseRankKilled[] = "RankKilled";
// A rank exited by itself.
inline constexpr char kCauseRankExited[] = "RankExited";
// A rank's GPU stopped working: DeviceUnhealthy.
inline constexpr char kCauseDeviceUnhealthy[] = "DeviceUnhealthy";
// Another process replaced a rank whose exit was not reported.
inline constexpr char kCauseRankReplaced[] = "RankReplaced";
// The agent lost its connection and did not reconnect, or its worker's port refused connections.
inline constexpr char kCauseAgentLost[] = "AgentLost";
// The agent's connection ended while its worker was leaving.
inline constexpr char kCauseAgentLeft[] = "AgentLeft";
// The agent's container was restarted.
inline constexpr char kCauseAgentRestarted[] = "AgentRestarted";
// The worker was silent for longer than the failure detection time.
inline constexpr char kCauseSilence[] = "Silence";
// A rank hung while the others waited for it, and was stopped.
inline constexpr char kCauseStalled[] = "Stalled";
// A worker did not accept the next epoch in time.
inline constexpr char kCauseNoAnswer[] = "NoAnswer";
// The operator reported that the Pod or its node is gone.
inline constexpr char kCausePodGone[] = "PodGone";
// A rank could not reach peers that could reach each other.
inline constexpr char kCauseCannotReachPeers[] = "CannotReachPeers";
// The worker left gracefully at the end of a step.
inline constexpr char kCauseLeft[] = "Left";
// The worker left gracefully because the job was scaled down. In mode Restart.
inline constexpr char kCauseScaledDown[] = "ScaledDown";
// The program was restarted with more workers. In mode Restart.
inline constexpr char kCauseWorkersJoin[] = "WorkersJoin";
// The program was restarted for another reason. In mode Restart.
inline constexpr char kCauseWorldChanged[] = "WorldChanged";
// The program was restarted because its launcher was lost. In mode Restart.
inline constexpr char kCauseLauncherLost[] = "LauncherLost";

}  // namespace ringmaster::control

namespace ringmaster::api {

// --- Conditions and reasons of TrainingProfiles
//
// `status.conditions` of a TrainingProfile in the operator's namespace. If it has no conditions, no
// operator watches it. In other namespaces a TrainingProfile has no effect and no status.

// Jobs may use the profile, and all of its spec applies. If False, the reason says why not. If
// True, the reason is also Accepted.
inline constexpr char kAccepted[] = "Accepted";
// spec.workload sets something that the profile's allows and limits do not cover, so no job may use
// the profile. The message names the field. Allow the field or remove it from workload.
inline constexpr char kReasonNotCovered[] = "NotCovered";
// Another profile of the same precedence is also the default of a namespace, so jobs there that do
// not name a profile get no Pods. The message names both profiles. Keep one default.
inline constexpr char kReasonDefaultConflict[] = "DefaultConflict";
// The API server rejects Pods with the settings of spec.workload because of an invalid field or
// value, so no job can start with the profile. The message names the field. Correct it.
inline constexpr char kReasonPodsRefused[] = "PodsRefused";
// The operator failed to decode the profile although the API server accepted it; the message names
// the field. If the profile is a default, jobs without spec.profile wait.
inline constexpr char kReasonUnreadable[] = "Unreadable";

// --- Events
//
// Event reasons of a TrainingJob; `kubectl describe` shows them. Condition reasons are also used
// for events that may need attention: refused requests, Pods that do not start, pauses, the
// checkpoint that a job started from, and why it failed.

// All Pods were created.
inline constexpr char kEventCreated[] = "PodsCreated";
// The first world, or the first world after a pause, is training.
inline constexpr char kEventRunning[] = "TrainingStarted";
// spec.worker.replicas was changed.
inline constexpr char kEventResized[] = "Resized";
// Warning: worker Pods ended or were deleted and are being replaced.
inline constexpr char kEventWorkerReplaced[] = "WorkerReplaced";
// Warning: the launcher was lost, and a new one takes over.
inline constexpr char kEventLauncherReplaced[] = "LauncherReplaced";
// Warning: a worker was lost although its Pod appears to be running; it is being replaced.
inline constexpr char kEventWorkerLost[] = "WorkerLost";
// Warning: a worker was not drained in time. It was deleted, or it is kept until its replacement
// trains.
inline constexpr char kEventNotDrained[] = "NotDrained";
// Training resumed after a loss. The message names the loss and how long the recovery took.
inline constexpr char kEventRecovered[] = "Recovered";
// Warning: too many nodes are not ready, so their workers are not replaced.
inline constexpr char kEventNodesUnreachable[] = "NodesUnreachable";
// Warning: a NetworkPolicy of the job was changed or deleted, and has been restored.
inline constexpr char kEventPolicyRestored[] = "NetworkPolicyRestored";
// Warning: see the condition ChangePending.
inline constexpr char kEventChangePending[] = "ChangePending";
// The job is suspended.
inline constexpr char kEventSuspended[] = "Suspended";
// The job was resumed.
inline constexpr char kEventResumed[] = "Resumed";
// The job has completed successfully.
inline constexpr char kEventSucceeded[] = "Succeeded";
// The checkpoints of a deleted job have been removed.
inline constexpr char kEventCheckpointsRemoved[] = "CheckpointsRemoved";
// Warning: checkpoints of a deleted job could not be removed. The message names the folder and the
// cause.
inline constexpr char kEventCheckpointsLeft[] = "CheckpointsLeft";

}  // namespace ringmaster::api
