#pragma once

// The labels, annotations and object names of the TrainingJob API; conditions and reasons are in
// reasons.h. Used by the operator's job/ folder and by tests. The names must match those in
// crds/.

#include <string>

#include "common/control/reasons.h"

namespace ringmaster::api {

inline constexpr char kGroup[] = "ringmaster.dev";
inline constexpr char kApiVersion[] = "ringmaster.dev/v1alpha1";
inline constexpr char kKind[] = "TrainingJob";

// Labels of all objects of a job. The operator's watches select objects by the first label.
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

// On Pods and the run's pin: the revision of the spec of the run (job/controller/run_pin.h).
inline constexpr char kLabelRevision[] = "ringmaster.dev/revision";

// On the launcher's Service: the keyring seed from which the job's keys are derived.
inline constexpr char kAnnotationSeedId[] = "ringmaster.dev/seed-id";

// On the launcher's Service: the installation that manages the job (job/policy/ownership.h). On a
// job: the installation to which a user has assigned the job. On a LocalTrainingProfile: the
// installation that maintains the object.
inline constexpr char kAnnotationInstallation[] = "ringmaster.dev/installation";

// The reason why a worker Pod must leave the job. The operator sets the annotation first, and later
// deletes the drained Pod. Users may set it, too: a new worker then replaces the Pod.
inline constexpr char kAnnotationLeaving[] = "ringmaster.dev/leaving";

// The finalizer of jobs whose checkpoints are deleted with them (job/planner/removal_plan.h).
inline constexpr char kFinalizer[] = "ringmaster.dev/checkpoints";

// The spec.managedBy value of this operator, which also manages jobs without that field.
inline constexpr char kManagedByOperator[] = "ringmaster.dev/operator";

// The Secret with the seeds, in the operator's namespace.
inline constexpr char kKeyringName[] = "ringmaster-keyring";

// Values of the field `action` of events.
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

// The names contain part of the UID, so they differ from the names of earlier jobs' objects.
inline std::string JobNetworkPolicyName(const std::string& job, const std::string& job_uid) {
  return job + "-" + job_uid.substr(0, 8);
}
inline std::string LauncherNetworkPolicyName(const std::string& job, const std::string& job_uid) {
  return JobNetworkPolicyName(job, job_uid) + "-launcher";
}

// Returns the name of the ControllerRevision with a run's spec. It contains part of the job's UID.
inline std::string RunPinName(const std::string& job, const std::string& job_uid) {
  return job + "-run-" + job_uid.substr(0, 8);
}

// Returns the name of the Pod that removes a deleted job's checkpoints. It contains part of the
// UID, so a later job of the same name uses another Pod name.
inline std::string CleanUpPodName(const std::string& job, const std::string& job_uid) {
  return job + "-clean-up-" + job_uid.substr(0, 8);
}

// Returns the value of status.selector, which selects the worker Pods of the job with this UID.
inline std::string WorkerSelector(const std::string& job_uid) {
  return std::string(kLabelJobUid) + "=" + job_uid + "," + kLabelRole + "=" + kRoleWorker;
}

}  // namespace ringmaster::api
