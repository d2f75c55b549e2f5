#pragma once

// The TrainingJob as C++ structs, with the defaults of the CRD in crds/. Plain values: codec.h
// reads and writes their JSON, and conditions.h updates conditions. Templates stay JSON text,
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
  std::optional<int> min_replicas;    // unset: see MinReplicas()
  std::optional<int> max_replicas;    // `replicas` never exceeds it
  std::string gpu_resource{};         // what GPUs are called here; empty: nvidia.com/gpu
  bool privileged = false;            // its container is
  bool ipc_lock = false;              // its container has the capability IPC_LOCK
  std::map<std::string, int> rdma{};  // extended resource -> how many a worker gets
  std::string template_json{};        // a Pod template, the typed fields included; empty: none

  friend bool operator==(const WorkerSpec&, const WorkerSpec&) = default;
};

struct CheckpointSpec {
  std::string volume_json{};  // one volume source, without a name
  int64_t every_steps = 500;
  int keep = 3;
  bool delete_with_job = false;  // onDelete: the job's own folder goes when the job is deleted
  // At most one: what the job begins with while it has no checkpoint of its own.
  std::string restore_job{};
  std::string restore_path{};

  friend bool operator==(const CheckpointSpec&, const CheckpointSpec&) = default;
};

struct DataCacheSpec {
  std::string from_json{};   // one volume source, without a name
  std::string sub_path{};    // what of it; empty: all
  std::string size_limit{};  // of the memory volume, a quantity

  friend bool operator==(const DataCacheSpec&, const DataCacheSpec&) = default;
};

// Which Pods of an ended job are deleted. None of these lets the training continue.
enum class CleanPodPolicy {
  kNone,          // those in which the managed container still runs
  kStillRunning,  // those in which anything still runs
  kAll
};

// Ranks that may end by themselves within a sliding window before the job gives up.
struct RestartLimit {
  int limit = 10;
  std::chrono::seconds window{3600};
  int crash_limit = 5;  // deaths by signal in a row without a step in between; 0: no limit
  std::vector<int> fail_codes{};     // exit codes after which the job fails at once
  std::vector<int> ignored_codes{};  // exit codes that are not counted

  friend bool operator==(const RestartLimit&, const RestartLimit&) = default;
};

// After how long something counts as lost; unset: the default of the program that judges it.
struct FaultTolerance {
  std::optional<int> lost_after_millis{};                 // silence of a worker
  std::optional<std::chrono::seconds> stall_after{};      // ranks that stand still; 0: never
  std::optional<std::chrono::seconds> load_timeout{};     // a rank that loads
  std::optional<std::chrono::seconds> connect_timeout{};  // ranks that do not answer each other
  std::optional<std::chrono::seconds> stop_grace{};       // of a program, after SIGTERM

  friend bool operator==(const FaultTolerance&, const FaultTolerance&) = default;
};

// The time limits of a job, and what happens to it and its Pods afterwards.
struct RunPolicy {
  std::optional<std::chrono::seconds> active_deadline{};  // from status.start_time to the end
  std::optional<std::chrono::seconds> start_timeout{};    // from there to the first committed step
  std::optional<std::chrono::seconds> ttl_after_success{};
  std::optional<std::chrono::seconds> ttl_after_failure{};
  CleanPodPolicy clean_pods = CleanPodPolicy::kStillRunning;
  std::optional<RestartLimit> restart{};  // unset: the launcher's own

  friend bool operator==(const RunPolicy&, const RunPolicy&) = default;
};

// For all texts of a spec together, because such jobs must fit into the operator's memory.
inline constexpr std::size_t kMaxTextBytes = 256 << 10;

// What happens to ranks when a world changes. How often a worker's program is
// started.
enum class LaunchMode {
  kPerSlot,   // once per slot: each process is a rank
  kPerWorker  // once: it starts its worker's ranks by itself, as torchrun does
};

// Whether the operator brings Ringmaster's programs into the Pods.
enum class InjectMode {
  kAuto,           // unless the operator knows the image as one that has them
  kInitContainer,  // in any case, by an init container that copies them, as kAuto does
  kImageVolume,    // in any case, by a volume that is their image
  kNone
};

enum class ElasticityMode {
  kInPlace,  // the remaining ranks keep running: they speak the rank protocol
  kRestart   // mpirun restarts all of them
};

// A field of the spec that stands for one of a Pod template (typed_fields.h).
struct TypedField {
  std::string path{};         // for example spec.worker.env
  std::string in_template{};  // spec.worker.template.spec.containers[0].env

  friend bool operator==(const TypedField&, const TypedField&) = default;
};

// Why a field of the spec could not be taken over.
struct FieldProblem {
  std::string path{};
  std::string message{};
  bool by_profile = false;  // what the job's profile sets made it one

  friend bool operator==(const FieldProblem&, const FieldProblem&) = default;
};

struct TrainingJobSpec {
  std::string image{};
  std::vector<std::string> command;
  std::string profile{};                // a TrainingProfile; empty: the namespace's default
  std::optional<int> slots_per_worker;  // unset: the worker's GPUs, else 1
  LaunchMode launch_mode = LaunchMode::kPerSlot;
  InjectMode inject = InjectMode::kAuto;
  std::optional<ElasticityMode> elasticity_mode;  // unset: the program's name decides, see Mode()
  std::vector<int> allowed_sizes{};               // of a world, in workers; empty: any
  WorkerSpec worker;
  std::string launcher_template_json{};  // a Pod template; empty: none
  std::optional<CheckpointSpec> checkpoint{};
  std::optional<DataCacheSpec> data_cache{};
  std::vector<std::string> mpi_extra_args;
  std::vector<std::string> mpi_pass_env;
  control::LaunchAgent mpi_launch_agent = control::LaunchAgent::kAuto;
  control::Interfaces interfaces{};
  int ssh_port = 0;
  bool host_network = false;  // the workers use their nodes' network
  FaultTolerance fault_tolerance{};
  std::optional<std::chrono::seconds> start_wait{};  // for all workers; unset: the launcher's own
  RunPolicy run_policy{};
  bool suspend = false;
  std::string managed_by{};                // empty: this operator
  std::vector<TypedField> typed_fields{};  // whose values the templates above contain
  std::vector<FieldProblem> problems{};    // of others; no Pod is made while there are any
  // Why the texts above are missing: jobs that have ended, are suspended or are managed by another
  // controller do not need them, and texts that are too long are not kept. No Pod is created from
  // such a spec. The program and the checkpoint settings stay.
  enum class Texts { kAll, kNotNeeded, kTooLong };
  Texts texts = Texts::kAll;
  std::string longest_text{};  // kTooLong: the field that is the longest, for people

  ElasticityMode Mode() const {
    if (elasticity_mode) return *elasticity_mode;
    return control::SpeaksRankProtocol(command) ? ElasticityMode::kInPlace
                                                : ElasticityMode::kRestart;
  }
  bool InPlace() const { return Mode() == ElasticityMode::kInPlace; }
  bool DeletesCheckpoints() const { return checkpoint && checkpoint->delete_with_job; }
  // Whether ringmaster-train spreads its classes over the ranks: with each lost worker the others
  // have more of them to keep.
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
  std::string start{};  // of a rank: which of its starts; empty for Pods
  int exit_code = -1;
  int signal = 0;
  std::string reason{};
  std::vector<std::string> last_lines;
  std::string stack{};  // where its threads were, of a rank that hung; only the newest one is kept
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
  int64_t step_millis = 0;    // its own part of a step: without waiting for other ranks
  int64_t median_millis = 0;  // the same, of all ranks
  std::string since{};        // RFC 3339

  friend bool operator==(const Straggler&, const Straggler&) = default;
};

// The last time that training continued after losing workers, or that a program in mode Restart was
// restarted because its world changed.
struct Recovery {
  int64_t epoch = 0;  // that went on
  std::string cause{};
  std::string worker{};  // Pod name
  std::string node{};
  int64_t detected_millis = 0;  // last sign of life -> known as lost
  int64_t resumed_millis = 0;   // known as lost -> first step done
  int64_t steps_lost = 0;
  bool from_start = false;  // the program began again
  int64_t ran_millis = 0;   // how long it had run then; 0: not known

  friend bool operator==(const Recovery&, const Recovery&) = default;
};

// The newest complete checkpoint.
struct CheckpointStatus {
  int64_t step = 0;
  std::string time{};  // RFC 3339
  int64_t bytes = 0;   // of all that are kept; 0: unknown

  friend bool operator==(const CheckpointStatus&, const CheckpointStatus&) = default;
};

// How many times in a row ranks or Pods were killed without training progress.
struct Crashes {
  int count = 0;
  int of_launcher = 0;  // of them: that the present launcher counted
  int64_t step = 0;     // the furthest that was committed by then
  std::string time{};   // of the newest; RFC 3339

  friend bool operator==(const Crashes&, const Crashes&) = default;
};

struct TrainingJobStatus {
  int64_t observed_generation = 0;
  std::string state{};
  std::string reason{};           // of the condition that says why it is in that state
  std::string start_time{};       // RFC 3339; empty while suspended
  std::string first_step_time{};  // of the first committed step since then; the same
  std::string completion_time{};  // the same, once it has ended
  int64_t launcher_term = 0;
  std::string installation{};  // that has the job; empty until its launcher's Service exists
  std::string profile{};       // that the run is judged and merged by
  std::vector<Condition> conditions;
  WorkerCounts workers;
  std::string selector{};
  std::optional<ElasticityMode> elasticity_mode{};  // that holds; unset: not described yet
  std::string started_by{};                         // Mpirun or Agents, once the launcher knows
  std::string launch_agent{};                       // SSH or Agent, once mpirun has been started
  int64_t epoch = 0;
  int world_size = 0;
  std::optional<JobProgress> progress;
  std::optional<CheckpointStatus> checkpoint;
  std::optional<Recovery> last_recovery;
  std::optional<Crashes> crashes;     // unset: none since the newest step
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
  bool held = false;  // its finalizers have kFinalizer: it stays until its checkpoints are removed
  std::string installation{};  // assigned by its annotation; empty: the owner keeps it
  TrainingJobSpec spec;
  bool has_default_image = false;  // the job names none: its spec has the operator's
  TrainingJobStatus status;

  std::string Key() const { return ns + "/" + name; }
};

}  // namespace ringmaster::api
