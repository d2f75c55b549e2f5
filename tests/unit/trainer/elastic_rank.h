#pragma once

// One rank of the real trainer on a thread of the test: session, step loop and Gloo, with a
// workload whose sums are exact in any order, so that every world size computes the same bits.

#include <ATen/ATen.h>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/unit/trainer/fake_launcher.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "tests/unit/trainer/training_world.h"

namespace ringmaster::trainer {

inline constexpr std::chrono::seconds kRankTimeout{40};

// What happens to a rank; steps count from 1.
struct RankScript {
  std::function<void(int64_t step)> at{};  // before the forward pass of each attempt at a step
  std::function<void()> at_evaluation{};
  std::function<void(const World& world)> entered{};
  int64_t fail_reduction_of = 0;  // that step's reduction fails here although it succeeded
  int64_t corrupt_at = 0;         // changes a parameter before that step
  std::chrono::seconds timeout = kRankTimeout;
  // Folders; empty: nothing is kept.
  std::string checkpoints{};
  std::string snapshots{};
};

inline constexpr int64_t kCheckpointEvery = 5;

inline void DieAt(int64_t step, int64_t at) {
  if (step == at) throw std::runtime_error("killed");
}

// Holds a rank at a step until the test lets it go.
class Gate {
 public:
  explicit Gate(int64_t step) : step_(step) {}

  void Pass(int64_t step) {
    if (step != step_) return;
    std::unique_lock lock(mutex_);
    ++reached_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void AwaitReached() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, FakeLauncher::kLimit, [&] { return reached_ > 0; }));
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  const int64_t step_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int reached_ = 0;
  bool open_ = false;
};

inline constexpr int64_t kExactBatch = 8;

// Gradients are small integers that tell (step, sample, element); all samples count as correct.
class ExactWorkload final : public Workload {
 public:
  explicit ExactWorkload(RankScript script) : script_(std::move(script)) {
    for (const int64_t size : {5, 21, 2}) {
      parameters_.push_back(at::ones({size}, at::kFloat).requires_grad_(true));
    }
  }

  std::vector<at::Tensor> parameters() override { return parameters_; }
  std::string model() const override { return "exact float32 [28]\n"; }
  const DataOrder& order() const override { return order_; }
  int64_t held_out_size() const override { return 10; }
  uint64_t fingerprint() const override { return 1; }
  void WarmUp() override {}

  void Load(int64_t step, Share share) override {
    step_ = step;
    share_ = share;
  }
  double Forward() override {
    if (script_.corrupt_at == step_ + 1) parameters_[0].data_ptr<float>()[0] += 1;
    if (script_.at) script_.at(step_ + 1);
    double loss = 0;
    for (int64_t sample = share_.begin; sample < share_.end; ++sample) {
      loss += static_cast<double>((step_ * kExactBatch + sample) % 5);
    }
    return loss;
  }
  void Backward() override {
    int64_t element = 0;
    for (at::Tensor& parameter : parameters_) {
      float* gradient = parameter.mutable_grad().data_ptr<float>();
      for (int64_t i = 0; i < parameter.numel(); ++i, ++element) {
        for (int64_t sample = share_.begin; sample < share_.end; ++sample) {
          gradient[i] += static_cast<float>((step_ * 31 + sample * 7 + element * 3) % 17 - 8);
        }
      }
    }
  }
  Evaluation Evaluate(Share share) override {
    if (script_.at_evaluation) script_.at_evaluation();
    return {.loss_sum = 0, .correct = share.size()};
  }

 private:
  const RankScript script_;
  const DataOrder order_{1, 64, kExactBatch};
  std::vector<at::Tensor> parameters_;
  int64_t step_ = 0;
  Share share_;
};

// A communicator whose owner is told that an operation failed which the other ranks saw succeed.
class HalfBlindCommunicator final : public Communicator {
 public:
  // Counts `reductions_left` down, and fails at zero.
  HalfBlindCommunicator(std::unique_ptr<Communicator> inner, int64_t& reductions_left)
      : inner_(std::move(inner)), reductions_left_(reductions_left) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  WorkHandle AllReduce(std::span<float> values, Deadline deadline) override {
    WorkHandle work = inner_->AllReduce(values, deadline);
    if (--reductions_left_ != 0) return work;
    EXPECT_TRUE(work->Wait().ok());
    auto failed = std::make_shared<Work>(deadline);
    failed->Complete(Error{ErrorKind::kUnavailable, "this rank alone lost the others"});
    return failed;
  }
  WorkHandle AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                       Deadline deadline) override {
    return inner_->AllGather(mine, all, deadline);
  }
  WorkHandle Broadcast(std::span<std::byte> bytes, int root, Deadline deadline) override {
    return inner_->Broadcast(bytes, root, deadline);
  }
  WorkHandle Barrier(Deadline deadline) override { return inner_->Barrier(deadline); }
  void Abort(const std::string& reason) override { inner_->Abort(reason); }
  int LostPeer() const override { return inner_->LostPeer(); }

 private:
  const std::unique_ptr<Communicator> inner_;
  int64_t& reductions_left_;
};

// Runs from construction on; ends when it is released, scripted to, or the launcher closes.
class ElasticRank {
 public:
  ElasticRank(FakeLauncher& launcher, std::string name, std::string folder, int64_t steps,
              RankScript script)
      : name_(std::move(name)), folder_(std::move(folder)) {
    thread_ = std::jthread([this, &launcher, steps, script = std::move(script)] {
      Run(launcher.Member(name_), steps, script);
    });
  }

  const std::string& name() const { return name_; }

  // REQUIRES, for all below: Await() has returned.
  const Result<RunSummary>& Await() {
    if (thread_.joinable()) thread_.join();
    return summary_;
  }
  // Parameters, then velocity.
  const std::vector<float>& state() const { return state_; }
  int summaries() const { return static_cast<int>(Logged("summary").size()); }
  std::vector<int64_t> logged_steps() const {
    std::vector<int64_t> steps;
    for (const auto& line : Logged("step")) steps.push_back(line.at("step").get<int64_t>());
    return steps;
  }

 private:
  void Run(const std::unique_ptr<MembershipSource>& membership, int64_t steps,
           const RankScript& script) {
    LeftBehind left_behind;
    ExactWorkload workload(script);
    Buckets buckets(workload.parameters(), {.first_bytes = 32, .bytes = 64});
    Sgd optimizer(buckets.flat_parameters(), buckets.flat_gradients(),
                  {.learning_rate = 0.01,
                   .momentum = 0.9,
                   .schedule = RateSchedule::kCosine,
                   .total_steps = steps});
    auto audit = AuditLog::Open(folder_);
    auto log = StepLog::Open(folder_ + "/" + name_ + ".log");
    ASSERT_TRUE(audit.ok() && log.ok());
    const SystemClock clock;
    const CommunicatorFactory gloo = TestCommunicators(left_behind);
    int64_t reductions_left = script.fail_reduction_of * buckets.count();
    const auto factory = [&](const World& world,
                             Deadline deadline) -> Result<std::unique_ptr<Communicator>> {
      auto made = gloo(world, deadline);
      if (!made.ok()) return made;
      return std::unique_ptr<Communicator>(
          new HalfBlindCommunicator(*std::move(made), reductions_left));
    };
    const auto keeper = StateKeeper::Open({.checkpoint_folder = script.checkpoints,
                                           .checkpoint_every = kCheckpointEvery,
                                           .checkpoint_keep = 3,
                                           .snapshot_folder = script.snapshots,
                                           .slot = 0,
                                           .identity = {.run = "run",
                                                        .model = workload.model(),
                                                        .seed = 1,
                                                        .global_batch = kExactBatch}},
                                          optimizer.state(), *membership, clock);
    ASSERT_TRUE(keeper.ok()) << keeper.error().message;
    Session session(*membership, factory, buckets, optimizer.state(), *audit, clock,
                    {.global_batch = kExactBatch,
                     .timeout = script.timeout,
                     .fingerprint = 0,
                     .entered = script.entered,
                     .keeper = keeper->get()});
    const Result<void> joined = session.Join();
    TrainPlan plan;
    plan.steps = steps;
    plan.global_batch = kExactBatch;
    summary_ = joined.ok() ? Train(workload, session, optimizer, *log, clock, plan)
                           : Result<RunSummary>(joined.error());
    for (const std::span<float> values : optimizer.state()) {
      state_.insert(state_.end(), values.begin(), values.end());
    }
  }

  std::vector<nlohmann::json> Logged(const std::string& field) const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(folder_ + "/" + name_ + ".log");
    for (std::string line; std::getline(file, line);) {
      nlohmann::json json = nlohmann::json::parse(line);
      if (json.contains(field)) lines.push_back(std::move(json));
    }
    return lines;
  }

  const std::string name_;
  const std::string folder_;
  Result<RunSummary> summary_ = Error{ErrorKind::kInternal, "it has not run"};
  std::vector<float> state_;
  std::jthread thread_;
};

// The state after a run without faults of one rank.
inline std::vector<float> TrainAlone(int64_t steps) {
  const TemporaryFolder folder;
  FakeLauncher launcher;
  ElasticRank rank(launcher, "alone", folder.path(), steps, {});
  launcher.Form({"alone"});
  EXPECT_TRUE(rank.Await().ok());
  return rank.state();
}

}  // namespace ringmaster::trainer
