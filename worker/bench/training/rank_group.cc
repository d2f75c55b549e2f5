#include "worker/bench/training/rank_group.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include <ATen/Parallel.h>

#include "common/base/clock.h"
#include "worker/bench/harness/ranks.h"
#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/compression/compressed_reducer.h"
#include "worker/trainer/environment/make_communicators.h"
#include "worker/trainer/telemetry/audit_log.h"
#include "worker/trainer/train/heap.h"
#include "worker/trainer/train/train_loop.h"
#include "worker/trainer/world_sources/static/static_membership.h"

namespace ringmaster::bench {
namespace {

using trainer::RunSummary;
using trainer::World;

constexpr std::chrono::seconds kStepTimeout{120};
constexpr std::chrono::hours kLongestRun{2};

}  // namespace

RankGroup::RankGroup(const World& world, int threads) : world_(world) {
  trainer::KeepFreedMemory();
  at::set_num_threads(threads);
}

Result<std::optional<RunSummary>> RankGroup::Together(const Training& training, int ranks) {
  World world = world_;
  world.size = ranks;
  world.store = std::make_shared<ScopedStore>(world_.store, "run/" + std::to_string(runs_++) + "/");
  std::optional<RunSummary> mine;
  if (rank() < ranks) {
    const Result<RunSummary> summary = Run(training, std::move(world));
    if (!summary.ok()) return summary.error();
    mine = *summary;
  }
  const Result<std::vector<std::string>> done = Gather("");
  if (!done.ok()) return done.error();
  return mine;
}

Result<std::vector<RunSummary>> RankGroup::Apart(const Training& training, int ranks) {
  if (const auto begun = Gather(""); !begun.ok()) return begun.error();
  std::string rate;
  if (rank() < ranks) {
    World world;
    world.ranks_on_host = ranks;
    const Result<RunSummary> summary = Run(training, std::move(world));
    if (!summary.ok()) return summary.error();
    rate = std::to_string(summary->samples_per_second);
  }
  const Result<std::vector<std::string>> rates = Gather(rate);
  if (!rates.ok()) return rates.error();
  std::vector<RunSummary> summaries(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    summaries[i].samples_per_second = std::strtod((*rates)[i].c_str(), nullptr);
  }
  return summaries;
}

Result<std::string> RankGroup::OnRankZero(const std::function<std::string()>& work) {
  const Result<std::vector<std::string>> said = Gather(rank() == 0 ? work() : "");
  if (!said.ok()) return said.error();
  return said->front();
}

Result<RunSummary> RankGroup::Run(const Training& training, World world) {
  const SystemClock clock;
  trainer::AbandonedConnects abandoned_connects;
  trainer::AuditLog audit;
  const std::unique_ptr<trainer::Workload> workload = training.workload(training.global_batch);
  workload->WarmUp();
  trainer::Buckets buckets(workload->parameters(), {.averages = workload->averages()});
  trainer::Sgd optimizer(buckets.flat_parameters(), buckets.flat_gradients(),
                         {.learning_rate = training.learning_rate,
                          .momentum = training.momentum,
                          .schedule = trainer::RateSchedule::kCosine,
                          .total_steps = training.steps,
                          .averages = workload->averages()});
  const auto codec = trainer::MakeHostRowCodec(training.compression);
  world.members.clear();
  const std::shared_ptr<trainer::Store> store = world.store;
  const auto membership = trainer::MakeStaticMembership(std::move(world), store);
  const auto reducer = trainer::MakeCompressedGradients(codec.get(), buckets.gradient_counts());
  trainer::Session session(
      *membership, trainer::MakeCommunicators(nullptr, abandoned_connects, training.transport),
      buckets, optimizer.state(), audit, clock,
      {.global_batch = training.global_batch, .timeout = kStepTimeout, .reducer = reducer.get()});
  if (Result<void> joined = session.Join(); !joined.ok()) return joined.error();
  Result<trainer::StepLog> log = trainer::StepLog::Open("none");
  if (!log.ok()) return log.error();
  trainer::TrainPlan plan;
  plan.steps = training.steps;
  plan.global_batch = training.global_batch;
  return Train(*workload, session, optimizer, *log, clock, plan);
}

// Returns the texts of all ranks, by rank. Also serves as a barrier for all ranks.
Result<std::vector<std::string>> RankGroup::Gather(const std::string& mine) {
  const std::string prefix = "gathered/" + std::to_string(gathered_++) + "/";
  std::vector<std::string> keys;
  for (int other = 0; other < size(); ++other) keys.push_back(prefix + std::to_string(other));
  const Result<void> set = world_.store->Set(keys[static_cast<std::size_t>(rank())], mine);
  if (!set.ok()) return set.error();
  return world_.store->Get(keys, std::chrono::steady_clock::now() + kLongestRun);
}

}  // namespace ringmaster::bench
