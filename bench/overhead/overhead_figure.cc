// Figure B11: how much time fault tolerance adds to a step when nothing fails. A world of ranks
// over Gloo, one process each, trains alternating blocks of steps of three kinds: with a session as
// in a job, which an agent could move to another world and which writes snapshots to shared memory;
// with a session that also writes the audit log; and in a bare loop that only reduces and updates.
// Model, buckets, communicator and optimizer are the same objects, so only the session differs. The
// figure is the median, over the rounds, of the time of the session's block divided by that of the
// bare block.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>

#include "bench/overhead/quiet_agent.h"
#include "common/control/pod_contract.h"
#include "tests/unit/trainer/communicator_wrapper.h"
#include "worker/bench/harness/figure.h"
#include "worker/bench/harness/ranks.h"
#include "worker/bench/harness/scratch_folder.h"
#include "worker/trainer/checkpoint/state_keeper.h"
#include "worker/trainer/comm/gloo/gloo_communicator.h"
#include "worker/trainer/elastic_torch/session.h"
#include "worker/trainer/optim/sgd.h"
#include "worker/trainer/telemetry/audit_log.h"
#include "worker/trainer/telemetry/position.h"
#include "worker/trainer/workloads/mnist.h"
#include "worker/trainer/world_sources/agent/agent_membership.h"

namespace ringmaster::overhead {
namespace {

using bench::Median;
using namespace trainer;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeout{60};
constexpr double kGoalPercent = 1;

struct Options {
  int ranks = 2;
  int64_t global_batch = 64;
  int64_t steps = 50;  // steps per block
  int rounds = 24;
};

template <typename T>
T Must(Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "figure-b11: %s\n", result.error().message.c_str());
  std::exit(1);
}
void Must(const Result<void>& result) {
  if (result.ok()) return;
  std::fprintf(stderr, "figure-b11: %s\n", result.error().message.c_str());
  std::exit(1);
}

// A communicator that its session does not own.
using Lent = CommunicatorWrapper;

control::RankEpoch WorldOf(int rank, int size) {
  control::RankEpoch world{.epoch = {.term = 1, .number = 1}, .rank = rank, .members = {}};
  for (int other = 0; other < size; ++other) {
    control::Member member;
    member.pod = member.pod_uid = "worker-" + std::to_string(other);
    member.start = "1";
    member.rank = other;
    world.members.push_back(member);
  }
  return world;
}

// Creates the page to which a rank writes its position, as an agent does.
std::shared_ptr<Position> PositionAt(const std::string& path) {
  std::ofstream(path).close();
  std::filesystem::resize_file(path, control::kPositionFileBytes);
  auto position = std::make_shared<Position>();
  Must(position->Open(path));
  return position;
}

// Trains with a session that is connected to a QuietAgent and takes snapshots.
class Elastic {
 public:
  Elastic(const std::string& name, const std::string& audit_log, const std::string& model,
          Communicator& communicator, Buckets& buckets, Sgd& optimizer, const Options& options)
      : agent_(name + ".socket", WorldOf(communicator.rank(), communicator.size())),
        membership_(Must(AgentMembership::Connect(name + ".socket", 0, clock_))),
        audit_(Must(AuditLog::Open(audit_log))),
        keeper_(Must(StateKeeper::Open({.checkpoints = {},
                                        .snapshot_folder = snapshots_.path(),
                                        .identity = {.run = "b11", .model = model, .shaping = {}}},
                                       optimizer.state(), *membership_, clock_))),
        session_(*membership_,
                 [&communicator](const World&, Deadline) -> Result<std::unique_ptr<Communicator>> {
                   return std::unique_ptr<Communicator>(new Lent(communicator));
                 },
                 buckets, optimizer.state(), audit_, clock_,
                 {.global_batch = options.global_batch,
                  .timeout = kTimeout,
                  .position = PositionAt(name + ".page"),
                  .checkpointer = keeper_.get()}) {
    Must(session_.Join());
  }

  void Step(Workload& workload, Sgd& optimizer, int64_t step) {
    const auto begin = steady_clock::now();
    session_.position().Enter(control::RankPhase::kData);
    workload.Load(step, session_.share());
    session_.position().Enter(control::RankPhase::kCompute);
    session_.Begin();
    session_.SetLoss(Must(workload.Forward(session_.collectives())));
    Must(workload.Backward(session_.collectives()));
    const Outcome<StepResult> reduced = session_.Reduce();
    if (!reduced.happened()) Must(Result<void>(Error{ErrorKind::kInternal, "a step failed"}));
    optimizer.Step(step);
    const auto took = steady_clock::now() - begin;
    session_.position().Applied(step + 1, took, took - reduced->waited);
    Must(session_.Applied({.step = step + 1, .loss = reduced->loss}));
  }

 private:
  const SystemClock clock_;
  QuietAgent agent_;
  const std::unique_ptr<AgentMembership> membership_;
  AuditLog audit_;
  const bench::ScratchFolder snapshots_{std::string(control::kSnapshotDir) + "/ringmaster-b11"};
  const std::unique_ptr<StateKeeper> keeper_;
  Session session_;
};

// Trains the same step without a session.
class Bare {
 public:
  Bare(Communicator& communicator, Buckets& buckets, const Options& options)
      : communicator_(communicator), buckets_(buckets), batch_(options.global_batch) {}

  void Step(Workload& workload, Sgd& optimizer, int64_t step) {
    workload.Load(step, ShareOf(communicator_.rank(), communicator_.size(), batch_));
    works_.clear();
    const Deadline deadline = steady_clock::now() + kTimeout;
    buckets_.Arm([this, deadline](int index) {
      works_.push_back(communicator_.AllReduce(buckets_.Bucket(index), ReduceOp::kSum, deadline));
    });
    LoneCollectives unused;
    buckets_.SetScalar(0, Must(workload.Forward(unused)));
    Must(workload.Backward(unused));
    buckets_.Flush();
    for (const WorkHandle& work : works_) Must(work->Wait());
    buckets_.flat_gradients().mul_(1.0 / static_cast<double>(batch_));
    optimizer.Step(step);
  }

 private:
  Communicator& communicator_;
  Buckets& buckets_;
  const int64_t batch_;
  std::vector<WorkHandle> works_;
};

// Milliseconds of all blocks of each kind: bare, session, session with the audit log.
using Blocks = std::array<std::vector<double>, 3>;

Blocks RunRank(const World& world, const Options& options, const std::string& folder) {
  at::set_num_threads(1);
  const std::unique_ptr<Workload> workload =
      MakeMnist(GeneratedDigits(1, 2048, 256), {.seed = 1, .global_batch = options.global_batch});
  workload->WarmUp();
  Buckets buckets(workload->parameters(), {});
  Sgd optimizer(buckets.flat_parameters(), buckets.flat_gradients(),
                {.learning_rate = 0.001, .schedule = RateSchedule::kConstant});
  AbandonedConnects abandoned_connects;
  GlooCommunicator communicator(world, steady_clock::now() + kTimeout, abandoned_connects);
  const std::string name = folder + "/" + std::to_string(world.rank);
  Bare bare(communicator, buckets, options);
  const std::string model = workload->model();
  Elastic plain(name + "-plain", "", model, communicator, buckets, optimizer, options);
  Elastic audited(name + "-audited", folder + "/audit", model, communicator, buckets, optimizer,
                  options);
  const std::array<std::function<void(int64_t)>, 3> kinds{
      [&](int64_t step) { bare.Step(*workload, optimizer, step); },
      [&](int64_t step) { plain.Step(*workload, optimizer, step); },
      [&](int64_t step) { audited.Step(*workload, optimizer, step); }};

  // Use each order of the kinds in turn, so that no kind benefits from its place in the order.
  std::array<std::size_t, 3> order{0, 1, 2};
  Blocks blocks;
  int64_t step = 0;
  for (int round = 0; round <= options.rounds; ++round) {
    for (const std::size_t kind : order) {
      const auto begin = steady_clock::now();
      for (const int64_t end = step + options.steps; step < end; ++step) kinds[kind](step);
      const std::chrono::duration<double, std::milli> took = steady_clock::now() - begin;
      if (round > 0) blocks[kind].push_back(took.count());  // the first round warms up
    }
    std::next_permutation(order.begin(), order.end());
  }
  return blocks;
}

// Returns by how many percent blocks of `kind` were slower than the bare blocks of their rounds.
double OverBare(const Blocks& blocks, std::size_t kind) {
  std::vector<double> percent;
  for (std::size_t round = 0; round < blocks[0].size(); ++round) {
    percent.push_back(100 * (blocks[kind][round] / blocks[0][round] - 1));
  }
  return Median(percent);
}

void Print(const Blocks& blocks, const Options& options) {
  const double bare_ms = Median(blocks[0]) / static_cast<double>(options.steps);
  const double session = OverBare(blocks, 1);
  const double audited = OverBare(blocks, 2);
  std::printf(
      "%d ranks, %d rounds of %lld steps: bare %.3f ms a step, session %+.2f %%, with audit log "
      "%+.2f %%\n",
      options.ranks, options.rounds, static_cast<long long>(options.steps), bare_ms, session,
      audited);
  bench::PrintFigure({.name = "B11",
                      .value = session,
                      .unit = "% longer steps through a session with snapshots than in a bare "
                              "loop, median of alternating blocks",
                      .reference = bare_ms,
                      .reference_is = "ms of a step of the bare loop, the same run",
                      .goal = "<= 1",
                      .holds = session <= kGoalPercent},
                     {{"with_audit_log", audited},
                      {"ranks", options.ranks},
                      {"global_batch", options.global_batch},
                      {"rounds", options.rounds},
                      {"steps_per_block", options.steps}});
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Overhead of fault tolerance per step without failures", "figure-b11");
  app.option_defaults()->always_capture_default();
  app.add_option("--ranks", options.ranks, "number of processes")->check(CLI::Range(2, 64));
  app.add_option("--global-batch", options.global_batch, "samples per step, at least one per rank")
      ->check(CLI::Range(64, 65536));
  app.add_option("--steps", options.steps, "of a block")->check(CLI::Range(1, 100000));
  app.add_option("--rounds", options.rounds, "number of blocks of each kind")
      ->check(CLI::Range(1, 100000));
  CLI11_PARSE(app, argc, argv);

  const bench::ScratchFolder folder("/dev/shm/figure-b11");
  return bench::RunOnRanks({.ranks = options.ranks}, [&](const World& world) {
    const Blocks blocks = RunRank(world, options, folder.path());
    if (world.rank == 0) Print(blocks, options);
    return 0;
  });
}

}  // namespace
}  // namespace ringmaster::overhead

int main(int argc, char** argv) {
  try {
    return ringmaster::overhead::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "figure-b11: %s\n", error.what());
    return 1;
  }
}
