// Tests a rank whose share grows because others are lost. The rank computes its share in
// micro-batches of the old size. Expects the same parameters and not more memory.

#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include "tests/unit/trainer/elastic_rank.h"
#include "tests/unit/trainer/fake_launcher.h"
#include "tests/unit/trainer/temporary_folder.h"

namespace ringmaster::trainer {
namespace {

constexpr int64_t kLastStep = 12;
constexpr int64_t kLossStep = 6;  // the step in which ranks die

// Measures the memory that LibTorch allocates on this thread during the meter's lifetime.
class Meter final : public c10::MemoryReportingInfoBase {
 public:
  void Restart() { live_ = peak_ = 0; }
  int64_t peak() const { return peak_; }

  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }

 private:
  int64_t live_ = 0;
  int64_t peak_ = 0;
};

using Peaks = std::map<int64_t, int64_t>;  // bytes, by step

// The MNIST workload with a script. Records the peak memory of each step.
class MeteredMnist final : public Workload {
 public:
  MeteredMnist(RankScript script, Peaks& peaks)
      : script_(std::move(script)),
        peaks_(peaks),
        inner_(MakeMnist(GeneratedDigits(5, 64, 10),
                         {.seed = 5, .global_batch = kExactBatch, .loader_threads = 0})) {}

  std::vector<at::Tensor> parameters() override { return inner_->parameters(); }
  std::string model() const override { return inner_->model(); }
  const DataOrder& order() const override { return inner_->order(); }
  int64_t held_out_size() const override { return inner_->held_out_size(); }
  uint64_t fingerprint() const override { return inner_->fingerprint(); }
  void WarmUp() override {}
  void Load(int64_t step, const MicroBatches& parts) override {
    step_ = step + 1;
    inner_->Load(step, parts);
  }
  Result<double> Forward(StepCollectives& others) override {
    if (script_.at) script_.at(step_);
    meter_->Restart();
    const c10::DebugInfoGuard metered(c10::DebugInfoKind::PROFILER_STATE, meter_);
    return inner_->Forward(others);
  }
  Result<void> Backward(StepCollectives& others) override {
    const c10::DebugInfoGuard metered(c10::DebugInfoKind::PROFILER_STATE, meter_);
    const Result<void> done = inner_->Backward(others);
    peaks_[step_] = meter_->peak();
    return done;
  }
  Evaluation Evaluate(Share share) override { return inner_->Evaluate(share); }

 private:
  const RankScript script_;
  Peaks& peaks_;
  const std::shared_ptr<Meter> meter_ = std::make_shared<Meter>();
  std::unique_ptr<Workload> inner_;
  int64_t step_ = 0;
};

struct Trained {
  std::vector<float> state;
  Peaks peaks;
};

// Trains `size` ranks, of which only the first survives step kLossStep. `micro_batch` 0: default.
Trained TrainWithLosses(int size, int64_t micro_batch) {
  const TemporaryFolder folder;
  FakeLauncher launcher;
  std::vector<Peaks> peaks(static_cast<std::size_t>(size));
  FakeLauncher::Names names;
  std::list<ElasticRank> ranks;
  for (int i = 0; i < size; ++i) {
    names.push_back(std::string(1, static_cast<char>('a' + i)));
    RankScript script;
    script.micro_batch = micro_batch;
    if (i > 0) script.at = [](int64_t step) { DieAt(step, kLossStep); };
    script.workload = [&of = peaks[static_cast<std::size_t>(i)]](const RankScript& with) {
      return std::make_unique<MeteredMnist>(with, of);
    };
    ranks.emplace_back(launcher, names.back(), folder.path(), kLastStep, std::move(script));
  }
  launcher.Form(names);
  for (auto rank = std::next(ranks.begin()); rank != ranks.end(); ++rank) rank->Await();
  if (size > 1) launcher.Form({"a"});
  const Result<RunSummary>& summary = ranks.front().Await();
  EXPECT_TRUE(summary.ok()) << summary.error().message;
  launcher.Close();
  return {ranks.front().state(), peaks.front()};
}

int64_t PeakOf(const Peaks& peaks, int64_t first, int64_t last) {
  int64_t peak = 0;
  for (int64_t step = first; step <= last; ++step) peak = std::max(peak, peaks.at(step));
  return peak;
}

TEST(MicroBatch, ASurvivorOfHalfTheRanksNeedsNoMoreMemory) {
  at::set_num_threads(1);
  const auto growth = [](int64_t micro_batch) {
    const Peaks peaks = TrainWithLosses(2, micro_batch).peaks;
    const int64_t before = PeakOf(peaks, 1, kLossStep - 1);
    EXPECT_GT(before, 0);
    return static_cast<double>(PeakOf(peaks, kLossStep, kLastStep)) / static_cast<double>(before);
  };

  EXPECT_LT(growth(0), 1.1);
  EXPECT_GT(growth(kExactBatch), 1.6) << "what it takes without micro-batches";
}

TEST(MicroBatch, ParametersAreThoseOfOneRankWhateverIsLost) {
  at::set_num_threads(1);
  const std::vector<float> alone = TrainWithLosses(1, 0).state;
  for (const int size : {2, 3}) {
    for (const int64_t micro_batch : {0, 1, 3}) {
      const std::vector<float> survivor = TrainWithLosses(size, micro_batch).state;

      ASSERT_EQ(survivor.size(), alone.size());
      for (std::size_t i = 0; i < alone.size(); ++i) {
        ASSERT_NEAR(survivor[i], alone[i], 1e-4)
            << i << " of " << size << " ranks with micro-batches of " << micro_batch;
      }
    }
  }
}

}  // namespace
}  // namespace ringmaster::trainer
