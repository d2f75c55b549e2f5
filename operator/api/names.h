#pragma once

// Every label, annotation, condition, reason and object name of the TrainingJob API, once. Used by
// the operator's job/ folder and by tests; the words in crds/ are the same. No behaviour but
// putting names together.

#include <string>

namespace ringmaster::api {

inline constexpr char kGroup[] = "ringmaster.dev";
inline constexpr char kVersion[] = "v1alpha1";
inline constexpr char kApiVersion[] = "ringmaster.dev/v1alpha1";
inline constexpr char kKind[] = "TrainingJob";

// Labels of every object of a job. The operator's watches select on the first.
inline constexpr char kLabelManagedBy[] = "ringmaster.dev/managed-by";
inline constexpr char kManagedBy[] = "ringmaster";
inline constexpr char kManagedBySelector[] = "ringmaster.dev/managed-by=ringmaster";
inline constexpr char kLabelJobName[] = "ringmaster.dev/job-name";
inline constexpr char kLabelJobUid[] = "ringmaster.dev/job-uid";
inline constexpr char kLabelRole[] = "ringmaster.dev/role";
inline constexpr char kRoleWorker[] = "worker";
inline constexpr char kRoleLauncher[] = "launcher";
inline constexpr char kRoleCleanUp[] = "clean-up";  // removes the checkpoints of a deleted job
inline constexpr char kLabelIndex[] = "ringmaster.dev/index";  // workers
inline constexpr char kLabelTerm[] = "ringmaster.dev/term";    // launchers

// Of Pods and of the run's pin: which text the Pod is made from (job/controller/run_pin.h).
inline constexpr char kLabelRevision[] = "ringmaster.dev/revision";

// On the launcher's Service: which seed of the keyring the job's keys come from.
inline constexpr char kAnnotationSeedId[] = "ringmaster.dev/seed-id";

// On the launcher's Service too: the installation that has the job (job/policy/ownership.h).
inline constexpr char kAnnotationInstallation[] = "ringmaster.dev/installation";

// On a worker Pod that has to go, before anybody is told: why. Its Pod is deleted when it is
// drained. A person may set it too: the worker leaves and another takes its place.
inline constexpr char kAnnotationLeaving[] = "ringmaster.dev/leaving";

// On a job whose checkpoints are removed before it goes (job/planner/removal_plan.h).
inline constexpr char kFinalizer[] = "ringmaster.dev/checkpoints";

// spec.runPolicy.managedBy of the jobs that are this operator's; so are those without one.
inline constexpr char kManagedByOperator[] = "ringmaster.dev/operator";

// The Secret with the seeds, in the operator's namespace.
inline constexpr char kKeyringName[] = "ringmaster-keyring";

// Condition types.
inline constexpr char kCreated[] = "Created";
inline constexpr char kWorkersReady[] = "WorkersReady";
inline constexpr char kRunning[] = "Running";
inline constexpr char kResizing[] = "Resizing";
inline constexpr char kProtected[] = "Protected";  // only once something could not be kept
inline constexpr char kRestored[] = "Restored";    // only where there is something to say of it
inline constexpr char kNetworkIsolated[] = "NetworkIsolated";
inline constexpr char kSuspended[] = "Suspended";          // only of a job that was suspended
inline constexpr char kManaged[] = "Managed";              // only once nobody ran the job
inline constexpr char kChangeRefused[] = "ChangeRefused";  // only once a change was refused
inline constexpr char kCheckpointsRemoved[] = "CheckpointsRemoved";  // only of a deleted job
inline constexpr char kSucceeded[] = "Succeeded";
inline constexpr char kFailed[] = "Failed";
// As kstatus knows them: what `helm install --wait`, Flux and other tools wait for.
inline constexpr char kReconciling[] = "Reconciling";
inline constexpr char kStalled[] = "Stalled";  // only of a job that has failed

// status.state, for people.
inline constexpr char kStatePending[] = "Pending";
inline constexpr char kStateStarting[] = "Starting";
inline constexpr char kStateRunning[] = "Running";
inline constexpr char kStatePaused[] = "Paused";
inline constexpr char kStateSuspended[] = "Suspended";
inline constexpr char kStateSucceeded[] = "Succeeded";
inline constexpr char kStateFailed[] = "Failed";

// Reasons of conditions. Those of a Failed verdict come from common/control/verdict.h; waiting
// containers keep the kubelet's own (ErrImagePull, ...).
inline constexpr char kReasonCreating[] = "CreatingPods";
inline constexpr char kReasonCreated[] = "PodsCreated";
inline constexpr char kReasonWaitingForPods[] = "WaitingForPods";
inline constexpr char kReasonWaitingForLauncher[] = "WaitingForLauncher";
inline constexpr char kReasonLauncherUnreachable[] = "LauncherUnreachable";
inline constexpr char kReasonUnschedulable[] = "Unschedulable";
inline constexpr char kReasonWorkersReady[] = "WorkersReady";
inline constexpr char kReasonPreflightFailed[] = "PreflightFailed";
inline constexpr char kReasonQuotaExceeded[] = "QuotaExceeded";
inline constexpr char kReasonPodSecurity[] = "PodSecurityViolation";
inline constexpr char kReasonForbidden[] = "Forbidden";
inline constexpr char kReasonNamespacePolicy[] = "NamespacePolicy";
inline constexpr char kReasonNameConflict[] = "NameConflict";
inline constexpr char kReasonCredentialsUnavailable[] = "CredentialsUnavailable";
inline constexpr char kReasonUnknown[] = "Unknown";
inline constexpr char kReasonApiError[] = "ApiError";
inline constexpr char kReasonBackOff[] = "BackOff";
inline constexpr char kReasonTraining[] = "Training";
inline constexpr char kReasonStarting[] = "Starting";
inline constexpr char kReasonStopping[] = "ReformingWorld";
inline constexpr char kReasonFinished[] = "Finished";
inline constexpr char kReasonCompleted[] = "Completed";
inline constexpr char kReasonInvalidSpec[] = "InvalidSpec";
inline constexpr char kReasonStartError[] = "StartError";
inline constexpr char kReasonPodNotStarting[] = "PodNotStarting";
inline constexpr char kReasonNodesUnreachable[] = "NodesUnreachable";
inline constexpr char kReasonDeadlineExceeded[] = "DeadlineExceeded";
inline constexpr char kReasonStartTimeout[] = "StartTimeout";

// Reasons of Suspended, and of other conditions meanwhile.
inline constexpr char kReasonSuspending[] = "Suspending";
inline constexpr char kReasonSuspended[] = "Suspended";
inline constexpr char kReasonResumed[] = "Resumed";

// Reasons of Managed.
inline constexpr char kReasonUninstalled[] = "Uninstalled";
inline constexpr char kReasonAdopted[] = "Adopted";

// Reasons of ChangeRefused.
inline constexpr char kReasonChangedWhileRunning[] = "ChangedWhileRunning";
inline constexpr char kReasonSpecInUse[] = "SpecInUse";

// Reasons of CheckpointsRemoved.
inline constexpr char kReasonRemoving[] = "Removing";

// Reasons of NetworkIsolated.
inline constexpr char kReasonPoliciesCreated[] = "PoliciesCreated";
inline constexpr char kReasonPoliciesMissing[] = "PoliciesMissing";
inline constexpr char kReasonHostNetwork[] = "HostNetwork";
inline constexpr char kReasonPoliciesOff[] = "PoliciesOff";

// Reasons of Protected.
inline constexpr char kReasonKept[] = "Kept";
inline constexpr char kReasonCheckpointFailing[] = "CheckpointFailing";
inline constexpr char kReasonSnapshotFailing[] = "SnapshotFailing";
inline constexpr char kReasonCopyFailing[] = "CopyFailing";
inline constexpr char kReasonCheckpointUnreadable[] = "CheckpointUnreadable";

// Reasons of Restored.
inline constexpr char kReasonFromCheckpoint[] = "FromCheckpoint";
inline constexpr char kReasonStartedAfresh[] = "StartedAfresh";

// Reasons of Resizing, beside the launcher's own for a pause (control::kPauseNoQuorum, ...).
inline constexpr char kReasonStable[] = "Stable";
inline constexpr char kReasonScalingUp[] = "ScalingUp";
inline constexpr char kReasonScalingDown[] = "ScalingDown";  // also of kAnnotationLeaving
inline constexpr char kReasonDraining[] = "Draining";
inline constexpr char kReasonWorkerLost[] = "WorkerLost";  // also in status.failures
inline constexpr char kReasonLauncherReplaced[] = "LauncherReplaced";

// Reasons of entries in status.failures, beyond Kubernetes' own (OOMKilled, Evicted, Error, ...).
inline constexpr char kReasonWorkerFailed[] = "WorkerFailed";
inline constexpr char kReasonLauncherLost[] = "LauncherLost";
inline constexpr char kReasonLauncherOOMKilled[] = "LauncherOOMKilled";
inline constexpr char kReasonProgramRestarted[] = "ProgramRestarted";  // also of an event
inline constexpr char kReasonNodeLost[] = "NodeLost";
inline constexpr char kReasonNodeNotReady[] = "NodeNotReady";

// Reasons and actions of events.
inline constexpr char kEventCreated[] = "PodsCreated";
inline constexpr char kEventRunning[] = "TrainingStarted";
inline constexpr char kEventResized[] = "Resized";
inline constexpr char kEventWorkerReplaced[] = "WorkerReplaced";
inline constexpr char kEventLauncherReplaced[] = "LauncherReplaced";
inline constexpr char kEventWorkerLost[] = "WorkerLost";
inline constexpr char kEventNotDrained[] = "NotDrained";
inline constexpr char kEventRecovered[] = "Recovered";
inline constexpr char kEventNodesUnreachable[] = "NodesUnreachable";
inline constexpr char kEventPolicyRestored[] = "NetworkPolicyRestored";
inline constexpr char kEventChangeRefused[] = "ChangeRefused";
inline constexpr char kEventSuspended[] = "Suspended";
inline constexpr char kEventResumed[] = "Resumed";
inline constexpr char kEventSucceeded[] = "Succeeded";
inline constexpr char kEventCheckpointsRemoved[] = "CheckpointsRemoved";
inline constexpr char kEventCheckpointsLeft[] = "CheckpointsLeft";
inline constexpr char kActionCreate[] = "Create";
inline constexpr char kActionReplace[] = "Replace";
inline constexpr char kActionDrain[] = "Drain";
inline constexpr char kActionWait[] = "Wait";
inline constexpr char kActionTrain[] = "Train";
inline constexpr char kActionFinish[] = "Finish";
inline constexpr char kActionSuspend[] = "Suspend";
inline constexpr char kActionResume[] = "Resume";
inline constexpr char kActionDelete[] = "Delete";

// Names of a job's objects.
inline std::string WorkerPodName(const std::string& job, int index) {
  return job + "-worker-" + std::to_string(index);
}
inline std::string LauncherPodName(const std::string& job, long term) {
  return job + "-launcher-" + std::to_string(term);
}
inline std::string WorkerServiceName(const std::string& job) { return job; }
inline std::string LauncherServiceName(const std::string& job) { return job + "-launcher"; }

// With a part of the UID: what a predecessor left takes no name.
inline std::string JobNetworkPolicyName(const std::string& job, const std::string& job_uid) {
  return job + "-" + job_uid.substr(0, 8);
}
inline std::string LauncherNetworkPolicyName(const std::string& job, const std::string& job_uid) {
  return JobNetworkPolicyName(job, job_uid) + "-launcher";
}

// Where the spec of a job's run is kept, with a part of the UID for the same reason.
inline std::string RunPinName(const std::string& job, const std::string& job_uid) {
  return job + "-run-" + job_uid.substr(0, 8);
}

// The Pod that removes a deleted job's checkpoints; the job of that name that comes next has
// another.
inline std::string CleanUpPodName(const std::string& job, const std::string& job_uid) {
  return job + "-clean-up-" + job_uid.substr(0, 8);
}

// status.selector: the job's worker Pods, of this UID alone.
inline std::string WorkerSelector(const std::string& job_uid) {
  return std::string(kLabelJobUid) + "=" + job_uid + "," + kLabelRole + "=" + kRoleWorker;
}

}  // namespace ringmaster::api
