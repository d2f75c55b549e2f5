// ringmaster-train runs one rank: it parses flags, loads data and model, joins a world, and trains.

#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <pthread.h>
#include <sched.h>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/control/exit_codes.h"
#include "common/control/pod_contract.h"
#include "worker/trainer/checkpoint/state_keeper.h"
#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/comm/file_store.h"
#include "worker/trainer/comm/nccl/abort_limit.h"
#include "worker/trainer/compression/compressed_reducer.h"
#include "worker/trainer/environment/make_communicators.h"
#include "worker/trainer/environment/rank_environment.h"
#include "worker/trainer/environment/rank_failure.h"
#include "worker/trainer/gpu/gpu.h"
#include "worker/trainer/numeric/alignment.h"
#include "worker/trainer/telemetry/audit_log.h"
#include "worker/trainer/telemetry/position.h"
#include "worker/trainer/telemetry/timeline.h"
#include "worker/trainer/train/build_info.h"
#include "worker/trainer/train/heap.h"
#include "worker/trainer/train/out_of_memory.h"
#include "worker/trainer/train/prepare.h"
#include "worker/trainer/train/train_loop.h"
#include "worker/trainer/train/train_options.h"
#include "worker/trainer/world_sources/static/replay_membership.h"
#include "worker/trainer/world_sources/static/static_membership.h"

namespace ringmaster::trainer {
namespace {

// Exits immediately. Committed steps are already logged; a timeline, if any, is written by the
// thread of WriteOnSigterm().
void EndOnSigterm(int) { _exit(128 + SIGTERM); }

// Starts a thread that handles SIGTERM from now on: it writes the timeline and then exits.
// REQUIRES: this process has no other thread yet.
std::jthread WriteOnSigterm(Timeline& timeline) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return std::jthread([&timeline, signals](const std::stop_token& stop) {
    const std::stop_callback wake(stop, [self = pthread_self()] { pthread_kill(self, SIGTERM); });
    int signal = 0;
    sigwait(&signals, &signal);
    if (stop.stop_requested()) return;
    timeline.Write();
    EndOnSigterm(SIGTERM);
  });
}

int CoresOf(const World& world) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, cores / std::max(1, world.ranks_on_host));
}

// Returns the age of this process, including the time to load its libraries. Reads /proc, which
// has a resolution of 10 ms; returns 0 if it cannot be read.
double ProcessAgeMillis() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may contain ')', too
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i < 22; ++i) fields >> field;  // proc(5): the start time is field 22
  double start_ticks = 0;
  if (!(fields >> start_ticks)) return 0;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double now_millis =
      static_cast<double>(now.tv_sec) * 1000 + static_cast<double>(now.tv_nsec) / 1e6;
  return now_millis - start_ticks * 1000 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Creates the source for --membership-schedule. `steps` is the job's number of steps.
Result<std::unique_ptr<MembershipSource>> MakeReplay(const TrainOptions& options, int64_t steps) {
  Result<MembershipSchedule> schedule = ReadMembershipSchedule(options.membership_schedule);
  if (!schedule.ok()) return schedule.error();
  const auto member = static_cast<std::size_t>(options.rank);
  const auto wrong = [&](const std::string& what) {
    return Error{ErrorKind::kInvalid,
                 "the membership schedule " + options.membership_schedule + " has " + what};
  };
  if (member >= schedule->members.size()) {
    return wrong(std::to_string(schedule->members.size()) + " members, so --rank=" +
                 std::to_string(options.rank) + " does not exist (ranks count from 0)");
  }
  if (schedule->steps() > steps) {
    return wrong(std::to_string(schedule->steps()) + " steps, but these flags result in " +
                 std::to_string(steps) + "; use the flags of the job that wrote it");
  }
  Result<std::unique_ptr<FileStore>> store = FileStore::Open(options.store);
  if (!store.ok()) return store.error();
  return MakeReplayMembership(*std::move(schedule),
                              {.member = member, .job_steps = steps, .address = options.address},
                              *std::move(store));
}

// Creates the source of worlds that the flags select. `steps` is the job's number of steps.
Result<std::unique_ptr<MembershipSource>> MakeMembership(const TrainOptions& options, int64_t steps,
                                                         const Clock& clock) {
  if (!options.membership_schedule.empty()) return MakeReplay(options, steps);
  if (options.world_size > 1) {
    Result<std::unique_ptr<FileStore>> store = FileStore::Open(options.store);
    if (!store.ok()) return store.error();
    World world;
    world.rank = options.rank;
    world.size = options.world_size;
    world.ranks_on_host = options.world_size;
    world.local_rank = options.rank;
    world.one_machine = true;
    world.address = options.address;
    return MakeStaticMembership(std::move(world), *std::move(store));
  }
  if (options.world_size == 1) return MakeSingleMembership();
  return JoinJob(clock);
}

// Returns the allocator of memory in which a GPU reduces gradients; none if they are compressed.
GradientMemory MemoryOf(Gpu* gpu, Compression compression) {
  if (gpu == nullptr || compression != Compression::kNone) return {};
  return [gpu](std::size_t bytes) { return gpu->ReducedInPlace(bytes); };
}

Result<std::unique_ptr<RowCodec>> MakeCodec(Gpu* gpu, Compression compression) {
  if (gpu != nullptr) return gpu->codec(compression);
  return MakeHostRowCodec(compression);
}

// Returns the identity of the run to which a state on disk or in shared memory belongs.
StateIdentity IdentityOf(const TrainOptions& options, const MadeWorkload& made) {
  std::string model = made.workload->model() + kLayoutText;
  if (options.precision == Precision::kFloat16) model += "loss scale, float32 [2]\n";
  return {.run = TextIn(control::kEnvJobUid),
          .model = std::move(model),
          .shaping = ShapingOf(options, made)};
}

// Only ranks that an agent started belong to a TrainingJob; a user may also run this program by
// hand in a Pod of the job.
CheckpointPlace PlaceOf(const TrainOptions& options) {
  CheckpointPlace place{.volume = options.checkpoint_dir,
                        .from_job = options.restore_job,
                        .from_path = options.restore_path};
  if (options.world_size == 0) NameJob(place);
  return place;
}

Result<std::unique_ptr<StateKeeper>> OpenKeeper(const TrainOptions& options,
                                                const MadeWorkload& made, const Sgd& optimizer,
                                                MembershipSource& membership, const Clock& clock) {
  CheckpointPlace place = PlaceOf(options);
  if (!place.from_job.empty() && place.uid.empty()) {
    return Error{ErrorKind::kInvalid,
                 "--restore-job works only within a TrainingJob, which has a namespace; use "
                 "--restore-path with a folder below --checkpoint-dir"};
  }
  return StateKeeper::Open({.checkpoints = std::move(place),
                            .checkpoint_every = options.checkpoint_every,
                            .checkpoint_keep = options.checkpoint_keep,
                            .snapshot_folder = options.snapshot_dir,
                            .identity = IdentityOf(options, made),
                            .mirror = optimizer.mirror(),
                            .sharded = made.workload->sharded()},
                           optimizer.state(), membership, clock);
}

// Sets the number of compute threads for a world; the ranks on a host share its cores.
void SetThreads(const TrainOptions& options, const World& world) {
  at::set_num_threads(options.threads > 0 ? options.threads : CoresOf(world));
}

// Returns CUDA's error if this rank's GPU is unusable. `gpu` is null if no GPU was opened.
std::optional<GpuFault> FaultOfRank(const TrainOptions& options, const Gpu* gpu) {
  if (options.device == "cpu") return std::nullopt;
  return FaultOfOwnGpu(gpu != nullptr);
}

// Prints `error` and returns the exit code. `end`: why the session ended before its last step.
int Fail(const Error& error, const std::optional<GpuFault>& fault,
         SessionEnd end = SessionEnd::kNone) {
  const RankFailure failure = FailureOf(error, end, fault, PinnedGpu());
  std::fprintf(stderr, "ringmaster-train: %s\n", failure.message.c_str());
  if (failure.exit_code == control::kExitDeviceUnhealthy) {
    // A normal exit would free memory of the GPU, which may never respond.
    std::fflush(nullptr);
    _exit(failure.exit_code);
  }
  return failure.exit_code;
}

// Objects with threads that can hang. Main() then ends the process without destroying them.
struct ThreadOwners {
  const SystemClock clock{};
  std::unique_ptr<MembershipSource> membership;
  std::unique_ptr<StateKeeper> keeper;
  AbandonedConnects abandoned_connects;

  // Ends the threads, and returns whether one of them hangs.
  bool Hang() {
    return (keeper && !keeper->Stop(std::chrono::seconds(2))) || abandoned_connects.Hanging() > 0;
  }
};

// Trains, and returns the exit code.
Result<int> Run(const TrainOptions& options, ThreadOwners& owners) {
  const SystemClock& clock = owners.clock;
  AbandonedConnects& abandoned_connects = owners.abandoned_connects;
  const std::shared_ptr<Position> position = MakePosition();  // first, because loading can hang too
  Result<StepLog> log = StepLog::Open(options.step_log);
  if (!log.ok()) return log.error();
  Result<AuditLog> audit = AuditLog::Open(options.audit_log);
  if (!audit.ok()) return audit.error();
  std::unique_ptr<Timeline> timeline;
  std::jthread on_sigterm;
  if (!options.timeline.empty()) {
    timeline = std::make_unique<Timeline>(options.timeline, clock);
    if (auto made = timeline->MakeFolder(); !made.ok()) return made.error();
    on_sigterm = WriteOnSigterm(*timeline);
    position->Observe([&timeline](control::RankPhase phase) {
      timeline->Enter(control::kRankPhaseNames[static_cast<std::size_t>(phase)]);
    });
  }
  const Result<Prepared> prepared = Prepare(options);
  if (!prepared.ok()) return prepared.error();
  const MadeWorkload& made = prepared->made;
  Workload& workload = *made.workload;
  const int64_t steps = made.steps;

  Result<std::unique_ptr<MembershipSource>> made_membership = MakeMembership(options, steps, clock);
  if (!made_membership.ok()) return made_membership.error();
  owners.membership = *std::move(made_membership);
  MembershipSource& membership = *owners.membership;
  Buckets buckets(workload.parameters(), prepared->buckets,
                  MemoryOf(prepared->gpu.get(), options.compression));
  Sgd optimizer(buckets.flat_parameters(), buckets.flat_gradients(), made.sgd);
  Result<std::unique_ptr<StateKeeper>> keeper =
      OpenKeeper(options, made, optimizer, membership, clock);
  if (!keeper.ok()) return keeper.error();
  owners.keeper = *std::move(keeper);
  const Result<std::unique_ptr<RowCodec>> codec =
      MakeCodec(prepared->gpu.get(), options.compression);
  if (!codec.ok()) return codec.error();
  const std::unique_ptr<GradientReducer> reducer =
      MakeCompressedGradients(codec->get(), buckets.gradient_counts());
  Session session(membership,
                  MakeCommunicators(prepared->gpu.get(), abandoned_connects, options.transport),
                  buckets, optimizer.state(), *audit, clock,
                  {.global_batch = options.global_batch,
                   .micro_batch = options.micro_batch,
                   .timeout = options.timeout,
                   .fingerprint = FingerprintOf(options, made),
                   .entered =
                       [&](const World& world) {
                         SetThreads(options, world);
                         if (!timeline) return;
                         const auto rank = static_cast<std::size_t>(world.rank);
                         timeline->EnterWorld(world.rank, world.members.at(rank));
                       },
                   .device_works = AskGpu(prepared->gpu.get()),
                   .position = position,
                   .checkpointer = owners.keeper.get(),
                   .sharded = workload.sharded(),
                   .trace = timeline.get(),
                   .reducer = reducer.get(),
                   .mirror = optimizer.mirror()});
  if (Result<void> joined = session.Join(); !joined.ok()) {
    return Fail(joined.error(), FaultOfRank(options, prepared->gpu.get()), session.end());
  }
  const TrainPlan plan{.steps = steps,
                       .global_batch = options.global_batch,
                       .log_every = options.log_every,
                       .process_millis = ProcessAgeMillis,
                       .skip_not_finite = options.skip_not_finite,
                       .timeline = timeline.get()};
  const Result<RunSummary> summary = Train(workload, session, optimizer, *log, clock, plan);
  if (timeline) timeline->Write();
  if (summary.ok() || session.end() == SessionEnd::kDone) {
    NoteTrainingEnded();
    return 0;
  }
  return Fail(summary.error(), FaultOfRank(options, prepared->gpu.get()), session.end());
}

// Returns kInvalid if GPU memory is exhausted: the user can choose a smaller model or batch.
Result<int> RunInMemory(const ParsedCommandLine& parsed, ThreadOwners& owners) {
  try {
    if (parsed.command != TrainCommand::kDryRun) return Run(parsed.options, owners);
    const Result<std::string> described = Describe(parsed.options);
    if (!described.ok()) return described.error();
    std::fputs(described->c_str(), stdout);
    return 0;
  } catch (const c10::OutOfMemoryError& error) {
    return Error{
        ErrorKind::kInvalid,
        OutOfMemorySentence(error.what_without_backtrace(),
                            "allocating the state before the first step (model, gradients, "
                            "optimizer, class centres)",
                            "train a smaller model; for partial-fc use fewer --classes, a smaller "
                            "--embedding or more workers, which share the class centres")};
  } catch (const std::exception& error) {  // thrown by LibTorch
    return Error{ErrorKind::kInternal, error.what()};
  }
}

int Main(int argc, const char* const* argv) {
  std::signal(SIGTERM, EndOnSigterm);
  KeepFreedMemory();
  InitLog("ringmaster-train", "info", LogFormat::kText);
  const Result<ParsedCommandLine> parsed = ParseCommandLine(argc, argv);
  if (!parsed.ok()) return Fail(parsed.error(), std::nullopt);
  if (parsed->command == TrainCommand::kPrint || parsed->command == TrainCommand::kCheckBuild) {
    const bool print = parsed->command == TrainCommand::kPrint;
    std::fputs((print ? parsed->text : BuildReport(FindGpus())).c_str(), stdout);
    return 0;
  }
  ThreadOwners owners;
  const Result<int> run = RunInMemory(*parsed, owners);
  const int code = run.ok() ? *run : Fail(run.error(), FaultOfRank(parsed->options, nullptr));
  if (owners.Hang()) {
    std::fflush(nullptr);
    _exit(code);
  }
  return code;
}

}  // namespace
}  // namespace ringmaster::trainer

int main(int argc, char** argv) {
  try {
    return ringmaster::trainer::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringmaster-train: %s\n", error.what());
    return 1;
  }
}
