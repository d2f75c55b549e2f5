#pragma once

// Every word that a program may match on: condition types, states, reasons, causes and event
// reasons (codes: exit_codes.h). They are API: a word keeps its meaning, and sentences beside it
// may change. docs/render.py renders docs/reasons.md from this header: each "---" begins a section,
// and the comment above a constant is its row, when it is set and what to do.
//
// Operator, launcher and agents use it, and tests, which assert these words and no sentences.

namespace ringmaster::api {

// --- Condition types
//
// `status.conditions` of a TrainingJob. `kubectl wait --for=condition=Succeeded tj/NAME` waits for
// one.

// The launcher's Pod and all worker Pods were created. False while the job is suspended.
inline constexpr char kCreated[] = "Created";
// All workers asked for are connected to the launcher and have passed their checks. While it is
// False its reason and message say what is missing.
inline constexpr char kWorkersReady[] = "WorkersReady";
// Ranks train together. False before the first world, while the job is paused and after its end.
inline constexpr char kRunning[] = "Running";
// The workers that train are not the ones asked for. Absent before the first world.
inline constexpr char kResizing[] = "Resizing";
// Checkpoints, snapshots and copies are kept as the job asks for. It appears once something could
// not be kept or read, and its message says what a loss would cost.
inline constexpr char kProtected[] = "Protected";
// True: the job began with another one's checkpoint. False: it began with its first step where
// checkpoints of a namesake lie. Absent where there is nothing to say.
inline constexpr char kRestored[] = "Restored";
// NetworkPolicies admit only the job's own Pods and the operator to its Pods.
inline constexpr char kNetworkIsolated[] = "NetworkIsolated";
// The job has no Pods because spec.suspend is true. It appears with the first suspension.
inline constexpr char kSuspended[] = "Suspended";
// False: no operator runs the job, since its installation was removed. It appears only then.
inline constexpr char kManaged[] = "Managed";
// The spec or what its TrainingProfile sets was changed while the job runs, and the job still runs
// with what it was started with.
// Suspend and resume it to run with the changed one.
inline constexpr char kChangePending[] = "ChangePending";
// Of a deleted job with spec.checkpoint.onDelete: Delete: what its end waits for.
inline constexpr char kCheckpointsRemoved[] = "CheckpointsRemoved";
// The job has ended well.
inline constexpr char kSucceeded[] = "Succeeded";
// The job has ended otherwise; reason and message say why.
inline constexpr char kFailed[] = "Failed";
// For kstatus (Helm's --wait, Flux): the job is on its way to what its spec asks for. While it is
// False its reason is the state.
inline constexpr char kReconciling[] = "Reconciling";
// For kstatus: the job has failed, which Failed says, too; or its spec cannot be run, reason
// InvalidSpec, and it has no Pods until the spec is corrected.
inline constexpr char kStalled[] = "Stalled";

// --- States
//
// `status.state`, one word for people. There may be further ones: programs read the conditions.

// Pods are made, or the launcher's waits for a node or an image.
inline constexpr char kStatePending[] = "Pending";
// The launcher runs, and ranks do not yet. The reason says what workers wait for.
inline constexpr char kStateStarting[] = "Starting";
// Ranks train.
inline constexpr char kStateRunning[] = "Running";
// Ranks wait for workers and keep their state.
inline constexpr char kStatePaused[] = "Paused";
// The job is suspended and has no Pods.
inline constexpr char kStateSuspended[] = "Suspended";
// The job has ended well.
inline constexpr char kStateSucceeded[] = "Succeeded";
// The job has ended otherwise.
inline constexpr char kStateFailed[] = "Failed";

// --- Reasons: the job waits for its Pods
//
// Of Created, WorkersReady and Reconciling. A container that waits has the kubelet's own reason,
// for example ErrImagePull.

// Pods are being created. Nothing to do.
inline constexpr char kReasonCreating[] = "CreatingPods";
// All Pods exist.
inline constexpr char kReasonCreated[] = "PodsCreated";
// Pods start, or not all of their agents have reported. Nothing to do; the message counts them.
inline constexpr char kReasonWaitingForPods[] = "WaitingForPods";
// The launcher's Pod runs and has not answered the operator yet. Nothing to do.
inline constexpr char kReasonWaitingForLauncher[] = "WaitingForLauncher";
// The launcher's Pod runs and does not answer the operator. Look at its log, and at NetworkPolicies
// between the operator and the Pod.
inline constexpr char kReasonLauncherUnreachable[] = "LauncherUnreachable";
// A Pod finds no node; the message is the scheduler's. Free capacity, or ask for less.
inline constexpr char kReasonUnschedulable[] = "Unschedulable";
// A Pod has a node and does not start; the message is the kubelet's newest event about it.
inline constexpr char kReasonPodNotStarting[] = "PodNotStarting";
// Nodes are not connected, too many at once to act on. Look at the nodes.
inline constexpr char kReasonNodesUnreachable[] = "NodesUnreachable";
// Pods of the job failed repeatedly, and the next try waits. `status.failures` says why they did.
inline constexpr char kReasonBackOff[] = "BackOff";
// All workers are ready.
inline constexpr char kReasonWorkersReady[] = "WorkersReady";

// --- Reasons: a request was refused
//
// Of WorkersReady and Reconciling. The operator tries again with growing delays.

// A ResourceQuota of the namespace is used up. Free some of it, or raise it.
inline constexpr char kReasonQuotaExceeded[] = "QuotaExceeded";
// The namespace's Pod Security level does not admit the Pods. The message names the fields.
inline constexpr char kReasonPodSecurity[] = "PodSecurityViolation";
// The API server or an admission webhook refused a request. The message is its own.
inline constexpr char kReasonForbidden[] = "Forbidden";
// The job's TrainingProfile does not allow what the spec asks for, or there is no such profile for
// its namespace. Change the spec, or ask the platform team.
inline constexpr char kReasonRefusedByProfile[] = "RefusedByProfile";
// An object that is not the job's has a name that it needs. Delete that one, or rename the job.
inline constexpr char kReasonNameConflict[] = "NameConflict";
// The operator could not read or make its keyring. Look at its log and at its rights.
inline constexpr char kReasonCredentialsUnavailable[] = "CredentialsUnavailable";
// The API server answered with another error. The message is its own.
inline constexpr char kReasonApiError[] = "ApiError";
// Nothing better is known.
inline constexpr char kReasonUnknown[] = "Unknown";

// --- Reasons: Running
//
// Beside those of a paused job.

// Ranks train.
inline constexpr char kReasonTraining[] = "Training";
// No ranks run yet.
inline constexpr char kReasonStarting[] = "Starting";
// The ranks are forming a new world. Nothing to do.
inline constexpr char kReasonStopping[] = "ReformingWorld";
// The job has ended. Also of WorkersReady, Resizing, Suspended, Created and ChangePending.
inline constexpr char kReasonFinished[] = "Finished";

// --- Reasons: Resizing
//
// Beside those of a paused job.

// The workers asked for are the ones that train.
inline constexpr char kReasonStable[] = "Stable";
// spec.worker.replicas was raised, or the job was resumed.
inline constexpr char kReasonScalingUp[] = "ScalingUp";
// spec.worker.replicas was lowered. Also of the annotation ringmaster.dev/leaving.
inline constexpr char kReasonScalingDown[] = "ScalingDown";
// A worker leaves after its step: its node is drained, or it was deleted.
inline constexpr char kReasonDraining[] = "Draining";
// A worker was lost, and another takes its place. Also in `status.failures`.
inline constexpr char kReasonWorkerLost[] = "WorkerLost";
// A new launcher learns from the agents which world runs.
inline constexpr char kReasonLauncherReplaced[] = "LauncherReplaced";

// --- Reasons: Suspended

// The ranks end, after a checkpoint where the job keeps some.
inline constexpr char kReasonSuspending[] = "Suspending";
// The job is suspended. Also of the other conditions meanwhile.
inline constexpr char kReasonSuspended[] = "Suspended";
// The job was resumed.
inline constexpr char kReasonResumed[] = "Resumed";

// --- Reasons: Managed

// The installation that ran the job was removed. Install it again, or delete the job.
inline constexpr char kReasonUninstalled[] = "Uninstalled";
// An installation has taken the job over.
inline constexpr char kReasonAdopted[] = "Adopted";

// --- Reasons: ChangePending

// What the job runs with differs from its spec. The message names the fields.
inline constexpr char kReasonChangedWhileRunning[] = "ChangedWhileRunning";
// They are the same again.
inline constexpr char kReasonSpecInUse[] = "SpecInUse";

// --- Reasons: CheckpointsRemoved
//
// Beside those of a refused request. Setting onDelete to Retain lets the job go at once.

// The job's Pods, which write to its folder, have not ended.
inline constexpr char kReasonEndingPods[] = "EndingPods";
// A Pod removes the job's folder, or is being made for that.
inline constexpr char kReasonRemoving[] = "Removing";

// --- Reasons: NetworkIsolated

// The policies are in place. They have an effect where the network plugin enforces them.
inline constexpr char kReasonPoliciesCreated[] = "PoliciesCreated";
// A policy could not be made. The message says why.
inline constexpr char kReasonPoliciesMissing[] = "PoliciesMissing";
// Workers use their nodes' network, where no policy reaches them.
inline constexpr char kReasonHostNetwork[] = "HostNetwork";
// The operator makes none (--job-network-policies=false).
inline constexpr char kReasonPoliciesOff[] = "PoliciesOff";

// --- Reasons: Protected

// All is kept again.
inline constexpr char kReasonKept[] = "Kept";
// Checkpoints are not complete: a loss of all workers goes back to the last one. Look at the
// volume.
inline constexpr char kReasonCheckpointFailing[] = "CheckpointFailing";
// No snapshots in memory: if all ranks end at once, training goes back to the last checkpoint.
inline constexpr char kReasonSnapshotFailing[] = "SnapshotFailing";
// No other worker holds a copy of a rank's share: its loss goes back to the last checkpoint.
inline constexpr char kReasonCopyFailing[] = "CopyFailing";
// Training waits for its kept state, which cannot be read or written. Look at the volume.
inline constexpr char kReasonCheckpointUnreadable[] = "CheckpointUnreadable";

// --- Reasons: Restored

// The job began with the checkpoint that restoreFrom names.
inline constexpr char kReasonFromCheckpoint[] = "FromCheckpoint";
// The job began with its first step beside the checkpoints of a namesake. Set restoreFrom to go on
// from them.
inline constexpr char kReasonStartedAfresh[] = "StartedAfresh";

// --- Reasons of failures
//
// `status.failures[].reason`, beside WorkerLost, OOMKilled and the reasons of Failed below, and
// Kubernetes' own (Evicted, Preempting, Error).

// A worker's Pod has ended and nothing says why.
inline constexpr char kReasonWorkerFailed[] = "WorkerFailed";
// The launcher's Pod was lost. Another one takes over.
inline constexpr char kReasonLauncherLost[] = "LauncherLost";
// It was killed for lack of memory. Raise the memory limit in spec.launcher.template.
inline constexpr char kReasonLauncherOOMKilled[] = "LauncherOOMKilled";
// A program in mode Restart was started again: its world changed or a rank died. Also of an event.
inline constexpr char kReasonProgramRestarted[] = "ProgramRestarted";
// A GPU that a rank was given does not work any more: the worker leaves the job, and another one
// takes its place, on another node where there is room. The message names the GPU, CUDA's error and
// what the driver reported (Xid). Also of an event.
inline constexpr char kReasonDeviceUnhealthy[] = "DeviceUnhealthy";
// The node of a worker is gone.
inline constexpr char kReasonNodeLost[] = "NodeLost";
// The node of a worker is not ready, and the worker is not connected.
inline constexpr char kReasonNodeNotReady[] = "NodeNotReady";

// --- Reasons: Succeeded and Failed

// All ranks have done their last step.
inline constexpr char kReasonCompleted[] = "Completed";
// The spec cannot be run. Of Stalled and WorkersReady: the job has no Pods; correct the spec. Of
// Failed: the API server refused a Pod; delete the job, correct the spec and apply it again.
inline constexpr char kReasonInvalidSpec[] = "InvalidSpec";
// A container cannot be started: a missing program, ConfigMap or Secret, or a wrong image name. The
// message says what is missing.
inline constexpr char kReasonStartError[] = "StartError";
// spec.runPolicy.activeDeadlineSeconds are over.
inline constexpr char kReasonDeadlineExceeded[] = "DeadlineExceeded";
// spec.runPolicy.startTimeoutSeconds are over without a step, or a registry does not have or give
// the image. The message says what was missing.
inline constexpr char kReasonStartTimeout[] = "StartTimeout";

}  // namespace ringmaster::api

namespace ringmaster::control {

// There was nothing left to train: the job began with a state that had all steps.
inline constexpr char kReasonAlreadyComplete[] = "AlreadyComplete";
// mpirun started other processes than the job's ranks. The message says which; mpirun's options in
// spec.mpi.extraArgs are the likely cause.
inline constexpr char kReasonWorldMismatch[] = "WorldMismatch";
// A rank ended by itself, more often than spec.runPolicy.restart allows. `status.failures` has its
// last lines. Also in `status.failures` of a rank that was started again.
inline constexpr char kReasonRankFailed[] = "RankFailed";
// A rank or Pod was killed for lack of memory, so often in a row as crashLimit says. Raise the
// memory limit. Also in `status.failures`, and the kubelet's word.
inline constexpr char kReasonOOMKilled[] = "OOMKilled";
// Ranks or Pods were killed, or did not load, so often in a row as crashLimit says.
inline constexpr char kReasonCrashLoop[] = "CrashLoop";
// A rank ended with exit code 2: the program refuses its arguments or data. Correct them.
inline constexpr char kReasonUserError[] = "UserError";
// A worker's checks failed: program, GPUs, memory, address. The message says which and on which
// node. Also of WorkersReady while the job may still go on.
inline constexpr char kReasonPreflightFailed[] = "PreflightFailed";
// A Pod mounts other credentials than the operator gave the job. Someone changed its Secret.
inline constexpr char kReasonCredentialsMismatch[] = "CredentialsMismatch";
// mpirun could not be started, or ended before the ranks were there. The message has its words.
inline constexpr char kReasonMpirunFailed[] = "MpirunFailed";
// The launcher could not do its work. The message says what.
inline constexpr char kReasonLauncherError[] = "LauncherError";

// --- Reasons: the job is paused
//
// Of Running and Resizing.

// Half of the last world's Pods or more are missing and not known to be dead, so others might train
// on. Training pauses until they are back, or known to be gone.
inline constexpr char kPauseNoQuorum[] = "NoQuorum";
// Fewer workers than spec.worker.minReplicas are there. Training pauses until there are enough.
inline constexpr char kPauseBelowMinReplicas[] = "BelowMinReplicas";

// --- Causes of a recovery
//
// `status.lastRecovery.cause`, beside OOMKilled: how the first worker or rank was lost. There may
// be further ones.

// A rank was killed by a signal.
inline constexpr char kCauseRankKilled[] = "RankKilled";
// A rank ended by itself.
inline constexpr char kCauseRankExited[] = "RankExited";
// A rank's GPU does not work any more: DeviceUnhealthy.
inline constexpr char kCauseDeviceUnhealthy[] = "DeviceUnhealthy";
// Another process has taken a rank's place, and its end was not heard of.
inline constexpr char kCauseRankReplaced[] = "RankReplaced";
// The agent's connection broke, and its port refuses or it did not dial again.
inline constexpr char kCauseAgentLost[] = "AgentLost";
// The agent's connection ended while its worker was to leave.
inline constexpr char kCauseAgentLeft[] = "AgentLeft";
// The agent's container was started again.
inline constexpr char kCauseAgentRestarted[] = "AgentRestarted";
// Nothing was heard from the worker for the time after which it counts as lost.
inline constexpr char kCauseSilence[] = "Silence";
// A rank hung while the others waited for it, and was ended.
inline constexpr char kCauseStalled[] = "Stalled";
// A worker did not accept the next epoch in time.
inline constexpr char kCauseNoAnswer[] = "NoAnswer";
// The operator saw that the Pod or its node is gone.
inline constexpr char kCausePodGone[] = "PodGone";
// A rank could not reach others that could reach each other.
inline constexpr char kCauseCannotReachPeers[] = "CannotReachPeers";
// The worker left in order, at the end of a step.
inline constexpr char kCauseLeft[] = "Left";
// The same, because fewer workers are asked for. In mode Restart.
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
// `status.conditions` of a TrainingProfile in the operator's namespace. One that has none there is
// not seen by any operator; in any other namespace a TrainingProfile has no effect and no status.

// Jobs may use the profile, as all of its spec says. False: its reason says what does not hold.
// Also the reason where it is True.
inline constexpr char kAccepted[] = "Accepted";
// spec.workload sets what the profile's own allows and limits do not cover: no job may use it. The
// message names the field. Allow it, or take it out of the workload.
inline constexpr char kReasonNotCovered[] = "NotCovered";
// Another profile is the default of the same namespace in the same rank, so jobs there that name no
// profile get no Pods. The message names both. Leave one default.
inline constexpr char kReasonDefaultConflict[] = "DefaultConflict";
// The API server refuses Pods that spec.workload makes by itself, for a wrong field or value, so no
// job begins under it. The message names the field. Correct it.
inline constexpr char kReasonPodsRefused[] = "PodsRefused";
// The operator cannot read it, which the API server has accepted; the message names the field.
// Where it is a default, jobs without spec.profile wait.
inline constexpr char kReasonUnreadable[] = "Unreadable";

// --- Events
//
// Reasons of the events of a TrainingJob, which `kubectl describe` shows. Reasons of conditions are
// events, too, where a person may have something to do: refusals, Pods that cannot go on, pauses,
// what a job began with, and why it failed.

// All Pods were created.
inline constexpr char kEventCreated[] = "PodsCreated";
// The first world trains, or one after a pause.
inline constexpr char kEventRunning[] = "TrainingStarted";
// spec.worker.replicas was changed.
inline constexpr char kEventResized[] = "Resized";
// Warning: worker Pods ended or were deleted, and others take their places.
inline constexpr char kEventWorkerReplaced[] = "WorkerReplaced";
// Warning: the launcher was lost, and another one takes over.
inline constexpr char kEventLauncherReplaced[] = "LauncherReplaced";
// Warning: a worker was lost although its Pod looks alive, and another takes its place.
inline constexpr char kEventWorkerLost[] = "WorkerLost";
// Warning: a worker that was to leave was not drained in time. It was deleted, or is kept until
// another one trains.
inline constexpr char kEventNotDrained[] = "NotDrained";
// Training continues after a loss. The message says after what, and how long it took.
inline constexpr char kEventRecovered[] = "Recovered";
// Warning: too many nodes are not connected to act on that.
inline constexpr char kEventNodesUnreachable[] = "NodesUnreachable";
// Warning: a NetworkPolicy of the job was changed or deleted, and is as it was again.
inline constexpr char kEventPolicyRestored[] = "NetworkPolicyRestored";
// Warning: see the condition ChangePending.
inline constexpr char kEventChangePending[] = "ChangePending";
// The job is suspended.
inline constexpr char kEventSuspended[] = "Suspended";
// The job was resumed.
inline constexpr char kEventResumed[] = "Resumed";
// The job has ended well.
inline constexpr char kEventSucceeded[] = "Succeeded";
// The checkpoints of a deleted job are removed.
inline constexpr char kEventCheckpointsRemoved[] = "CheckpointsRemoved";
// Warning: checkpoints of a deleted job could not be removed. The message names the folder and why.
inline constexpr char kEventCheckpointsLeft[] = "CheckpointsLeft";

}  // namespace ringmaster::api
