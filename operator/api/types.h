#pragma once

// The TrainingJob as plain C++ structs, with the defaults of the CRD in crds/. codec.h converts
// them from and to JSON, and conditions.h updates conditions. Pod templates remain JSON text,
// because only the API server knows all of their fields.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/control/launch_spec.h"

namespace ringmaster::api {

inline constexpr char kGpuResource[] = "nvidia.com/gpu";  // the default of worker.gpuResource

struct WorkerSpec {
  int replicas = 1;
  std::optional<int> min_replicas;    // unset: MinReplicas() computes it
  std::optional<int> max_replicas;    // the upper limit of `replicas`
  std::string gpu_resource{};         // the resource name of GPUs; empty: nvidia.com/gpu
  bool privileged = false;            // whether the worker's container is privileged
  bool ipc_lock = false;              // whether the worker's container gets the capability IPC_LOCK
  std::map<std::string, int> rdma{};  // extended resource -> number per worker
  std::string template_json{};        // a Pod template with the typed fields; empty: none

  friend bool operator==(const WorkerSpec&, const WorkerSpec&) = default;
};

struct CheckpointSpec {
  std::string volume_json{};  // the JSON of one volume source, without a name
  int64_t every_steps = 500;
  int keep = 3;
  bool delete_with_job = false;  // onDelete: whether the job's folder is deleted with the job
  // The checkpoint from which a job without checkpoints starts. At most one of these is set.
  std::string restore_job{};
  std::string restore_path{};

  friend bool operator==(const CheckpointSpec&, const CheckpointSpec&) = default;
};

struct DataCacheSpec {
  std::string from_json{};   // the JSON of one volume source, without a name
  std::string sub_path{};    // the path in the volume; empty: the whole volume
  std::string size_limit{};  // the size limit of the memory volume, as a quantity

  friend bool operator==(const DataCacheSpec&, const DataCacheSpec&) = default;
};

// The Pods that are deleted after a job has ended. Training stops with every policy.
enum class CleanPodPolicy {
  kNone,          // deletes only Pods whose managed container still runs
  kStillRunning,  // deletes only Pods in which any container still runs
  kAll
};

// The number of rank failures within a sliding window after which the job fails.
struct RestartLimit {
  int limit = 10;
  std::chrono::seconds window{3600};
  int crash_limit = 5;  // consecutive crashes without a completed step in between; 0: no limit
  std::vector<int> fail_codes{};     // exit codes that fail the job immediately
  std::vector<int> ignored_codes{};  // exit codes that are not counted

  friend bool operator==(const RestartLimit&, const RestartLimit&) = default;
};

// Timeouts of the failure detection. Unset: the default of the program that applies the timeout.
struct FaultTolerance {
  std::optional<int> lost_after_millis{};                 // time for a worker to answer
  std::optional<std::chrono::seconds> stall_after{};      // time for a rank to advance; 0: no limit
  std::optional<std::chrono::seconds> load_timeout{};     // time for a started rank to join a world
  std::optional<std::chrono::seconds> connect_timeout{};  // time for ranks to answer each other
  std::optional<std::chrono::seconds> stop_grace{};       // time to exit after SIGTERM

  friend bool operator==(const FaultTolerance&, const FaultTolerance&) = default;
};

// The time limits of a job, and what happens to it and its Pods afterwards.
struct RunPolicy {
  std::optional<std::chrono::seconds> active_deadline{};  // time from status.start_time to the end
  std::optional<std::chrono::seconds> start_timeout{};    // time from start_time to the first step
  std::optional<std::chrono::seconds> ttl_after_success{};
  std::optional<std::chrono::seconds> ttl_after_failure{};
  CleanPodPolicy clean_pods = CleanPodPolicy::kStillRunning;
  std::optional<RestartLimit> restart{};  // unset: the launcher's default

  friend bool operator==(const RunPolicy&, const RunPolicy&) = default;
};

// The limit for the total size of a spec's texts, so that all jobs fit into the operator's memory.
inline constexpr std::size_t kMaxTextBytes = 256 << 10;

// Whether Ringmaster starts the user's program once per slot or once per
// worker.
enum class LaunchMode {
  kPerSlot,   // once per slot: each process is one rank
  kPerWorker  // once per worker: the program starts the ranks itself, like torchrun
};

// Whether and how the operator adds Ringmaster's programs to the Pods.
enum class InjectMode {
  kAuto,           // like kInitContainer, unless the operator knows that the image has the programs
  kInitContainer,  // always, with an init container that copies the programs
  kImageVolume,    // always, with an image volume that has the programs
  kNone
};

enum class ElasticityMode {
  kInPlace,  // the remaining ranks keep running; requires the rank protocol
  kRestart   // mpirun restarts all ranks after a change of the workers
};

// A field of the spec that sets a field of a Pod template (typed_fields.h).
struct TypedField {
  std::string path{};         // path of the field, such as spec.worker.env
  std::string in_template{};  // template path, such as spec.worker.template.spec.containers[0].env

  friend bool operator==(const TypedField&, const TypedField&) = default;
};

// A field of the spec that could not be used, and the reason.
struct FieldProblem {
  std::string path{};
  std::string message{};
  bool by_profile = false;  // whether a setting of the job's profile is the cause

  friend bool operator==(const FieldProblem&, const FieldProblem&) = default;
};

struct TrainingJobSpec {
  std::string image{};
  std::vector<std::string> command;
  std::string profile{};                // name of a TrainingProfile; empty: the default
  std::optional<int> slots_per_worker;  // unset: one per GPU, or 1 without GPUs
  LaunchMode launch_mode = LaunchMode::kPerSlot;
  InjectMode inject = InjectMode::kAuto;
  std::optional<ElasticityMode> elasticity_mode;  // unset: Mode() derives it from command
  std::vector<int> allowed_sizes{};               // world sizes, in workers; empty: any
  WorkerSpec worker;
  std::string launcher_template_json{};  // a Pod template; empty: none
  std::optional<CheckpointSpec> checkpoint{};
  std::optional<DataCacheSpec> data_cache{};
  std::vector<std::string> mpi_extra_args;
  std::vector<std::string> mpi_pass_env;
  control::LaunchAgent mpi_launch_agent = control::LaunchAgent::kAuto;
  control::Interfaces interfaces{};
  int ssh_port = 0;
  bool host_network = false;  // whether the workers use their nodes' network
  FaultTolerance fault_tolerance{};
  std::optional<std::chrono::seconds> start_wait{};  // time to wait for workers; unset: default
  RunPolicy run_policy{};
  bool suspend = false;
  std::string managed_by{};                // empty: this operator
  std::vector<TypedField> typed_fields{};  // the typed fields that the templates contain
  std::vector<FieldProblem> problems{};    // unusable fields; if any, no Pod is created
  // Whether the spec has its texts, and if not, why. Jobs that have ended, are suspended or are
  // managed by another controller do not need them, and texts that are too long are dropped. No Pod
  // is created from a spec without texts. The command and the checkpoint settings are always kept.
  enum class Texts { kAll, kNotNeeded, kTooLong };
  Texts texts = Texts::kAll;
  std::string longest_text{};  // only for kTooLong: the longest field, for messages

  ElasticityMode Mode() const {
    if (elasticity_mode) return *elasticity_mode;
    return control::SpeaksRankProtocol(command) ? ElasticityMode::kInPlace
                                                : ElasticityMode::kRestart;
  }
  bool InPlace() const { return Mode() == ElasticityMode::kInPlace; }
  bool DeletesCheckpoints() const { return checkpoint && checkpoint->delete_with_job; }
  // Returns true if ringmaster-train partitions the classes across the ranks. Each lost worker then
  // increases the number of classes per remaining rank.
  bool SpreadsClasses() const {
    for (std::size_t i = 0; i < command.size(); ++i) {
      const bool after_flag = i > 0 && command[i - 1] == "--workload";
      if (command[i] == "--workload=partial-fc" || (after_flag && command[i] == "partial-fc"))
        return true;
    }
    return false;
  }
  int MinReplicas() const {
    const bool any = InPlace() && !SpreadsClasses();
    const int least = worker.min_replicas.value_or(any ? 1 : worker.replicas);
    return least < worker.replicas ? least : worker.replicas;
  }

  friend bool operator==(const TrainingJobSpec&, const TrainingJobSpec&) = default;
};

enum class ConditionStatus { kTrue, kFalse, kUnknown };

struct Condition {
  std::string type{};
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason{};
  std::string message{};
  std::string last_transition_time{};  // RFC 3339
  int64_t observed_generation = 0;

  friend bool operator==(const Condition&, const Condition&) = default;
};

struct WorkerCounts {
  int desired = 0;
  int replicas = 0;
  int ready = 0;
  int members = 0;

  friend bool operator==(const WorkerCounts&, const WorkerCounts&) = default;
};

struct JobProgress {
  int64_t step = 0;
  int64_t total_steps = 0;  // 0: unknown
  std::optional<int> percent;
  std::string samples_per_second{};  // a decimal number; empty while unknown
  std::string loss{};
  std::string accuracy{};                   // empty until measured
  std::string estimated_completion_time{};  // empty while unknown

  friend bool operator==(const JobProgress&, const JobProgress&) = default;
};

struct Failure {
  std::string worker{};  // Pod name
  std::string pod_uid{};
  std::string node{};
  int rank = -1;
  std::string start{};  // identifies one start of a rank; empty for Pods
  int exit_code = -1;
  int signal = 0;
  std::string reason{};
  std::vector<std::string> last_lines;
  std::string stack{};  // thread stacks of a rank that hung; only the newest failure has them
  std::string time{};   // RFC 3339

  friend bool operator==(const Failure&, const Failure&) = default;
};

inline constexpr std::size_t kMaxFailures = 16;

// A rank that takes much longer for its part of a step than its peers.
struct Straggler {
  std::string worker{};  // Pod name
  std::string pod_uid{};
  std::string node{};
  int rank = 0;
  int64_t step_millis = 0;    // time for its part of a step, without waiting for other ranks
  int64_t median_millis = 0;  // the median of this time over all ranks
  std::string since{};        // RFC 3339

  friend bool operator==(const Straggler&, const Straggler&) = default;
};

// The latest recovery: training continued after the loss of workers, or a program in mode Restart
// was restarted because its world changed.
struct Recovery {
  int64_t epoch = 0;  // the epoch in which training continued
  std::string cause{};
  std::string worker{};  // Pod name
  std::string node{};
  int64_t detected_millis = 0;  // time from the last heartbeat to the detection of the loss
  int64_t resumed_millis = 0;   // time from the detection to the first completed step
  int64_t steps_lost = 0;
  bool from_start = false;  // whether the program was restarted
  int64_t ran_millis = 0;   // how long the program had run before; 0: unknown

  friend bool operator==(const Recovery&, const Recovery&) = default;
};

// The newest complete checkpoint.
struct CheckpointStatus {
  int64_t step = 0;
  std::string time{};  // RFC 3339
  int64_t bytes = 0;   // total size of all kept checkpoints; 0: unknown

  friend bool operator==(const CheckpointStatus&, const CheckpointStatus&) = default;
};

// How many times in a row ranks or Pods were killed without training progress.
struct Crashes {
  int count = 0;
  int of_launcher = 0;  // how many of these the current launcher counted
  int64_t step = 0;     // the last committed step at the newest crash
  std::string time{};   // time of the newest crash; RFC 3339

  friend bool operator==(const Crashes&, const Crashes&) = default;
};

struct TrainingJobStatus {
  int64_t observed_generation = 0;
  std::string state{};
  std::string reason{};           // the reason of the condition that explains the state
  std::string start_time{};       // RFC 3339; empty while suspended
  std::string first_step_time{};  // time of the first step after start_time; RFC 3339
  std::string completion_time{};  // when the job ended; RFC 3339
  int64_t launcher_term = 0;
  bool has_trained = false;    // whether its ranks have ever run; kept by suspensions
  std::string installation{};  // managing installation; empty until the launcher's Service exists
  std::string profile{};       // the TrainingProfile that applies to the run
  std::vector<Condition> conditions;
  WorkerCounts workers;
  std::string selector{};
  std::optional<ElasticityMode> elasticity_mode{};  // the mode in use; unset: not known yet
  std::string started_by{};                         // Mpirun or Agents; empty: not known yet
  std::string launch_agent{};                       // SSH or Agent; empty until mpirun runs
  int64_t epoch = 0;
  int world_size = 0;
  std::optional<JobProgress> progress;
  std::optional<CheckpointStatus> checkpoint;
  std::optional<Recovery> last_recovery;
  std::optional<Crashes> crashes;     // unset: no crashes since the newest step
  std::vector<Failure> failures;      // newest first
  std::vector<Straggler> stragglers;  // slowest first, at most control::kMaxStragglers

  friend bool operator==(const TrainingJobStatus&, const TrainingJobStatus&) = default;
};

struct TrainingJob {
  std::string ns{};
  std::string name{};
  std::string uid{};
  std::string resource_version{};
  std::string created_at{};  // RFC 3339
  int64_t generation = 0;
  bool deleting = false;
  bool held = false;  // whether it has kFinalizer: deletion waits for the removal of checkpoints
  std::string installation{};  // the installation that a user assigned; empty: none
  TrainingJobSpec spec;
  bool has_default_image = false;  // whether the job has no image and `spec` has the default
  TrainingJobStatus status;

  std::string Key() const { return ns + "/" + name; }
};

}  // namespace ringmaster::api
