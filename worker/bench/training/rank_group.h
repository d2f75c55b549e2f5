#pragma once

// The ranks of a bench as a group that trains repeatedly: some or all ranks together, with the
// trainer's session and step loop, or each rank independently. Every rank must make the same calls.
// Each run uses a separate prefix of the store for its worlds.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/trainer/comm/host/host_transport.h"
#include "worker/trainer/comm/world.h"
#include "worker/trainer/compression/codec.h"
#include "worker/trainer/telemetry/step_log.h"
#include "worker/trainer/workloads/workload.h"

namespace ringmaster::bench {

// One training run, which starts from initial parameters.
struct Training {
  std::function<std::unique_ptr<trainer::Workload>(int64_t global_batch)> workload;
  int64_t global_batch = 64;
  int64_t steps = 100;
  double learning_rate = 0.03;
  double momentum = 0.9;
  trainer::Compression compression = trainer::Compression::kNone;
  trainer::HostTransport transport = trainer::HostTransport::kAuto;
};

// Thread-safety: one thread.
class RankGroup {
 public:
  // `world` is the world of RunOnRanks(). Each rank computes with `threads` threads.
  explicit RankGroup(const trainer::World& world, int threads = 1);

  int rank() const { return world_.rank; }
  int size() const { return world_.size; }

  // Trains on ranks 0 … ranks - 1; the other ranks wait. Returns this rank's summary once all ranks
  // are done; empty if this rank did not take part. REQUIRES: ranks <= size().
  Result<std::optional<trainer::RunSummary>> Together(const Training& training, int ranks);
  // Trains each of the first `ranks` ranks alone, at the same time. Returns the summaries by rank.
  Result<std::vector<trainer::RunSummary>> Apart(const Training& training, int ranks);
  // Runs `work` on rank 0 while the other ranks wait, and returns its result.
  Result<std::string> OnRankZero(const std::function<std::string()>& work);

 private:
  Result<trainer::RunSummary> Run(const Training& training, trainer::World world);
  Result<std::vector<std::string>> Gather(const std::string& mine);

  const trainer::World world_;
  int runs_ = 0;
  int gathered_ = 0;
};

}  // namespace ringmaster::bench
