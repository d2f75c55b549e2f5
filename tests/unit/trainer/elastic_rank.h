#pragma once

// One rank of the real trainer on a thread of the test: session and step loop, with a workload
// whose sums are exact in any order, so that every world size computes the same bits.

#include <algorithm>
#include <cmath>
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

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "tests/unit/trainer/communicator_wrapper.h"
#include "tests/unit/trainer/fake_launcher.h"
#include "tests/unit/trainer/temporary_folder.h"
#include "tests/unit/trainer/training_world.h"
#include "worker/trainer/checkpoint/state_keeper.h"

namespace ringmaster::trainer {

inline constexpr std::chrono::seconds kRankTimeout{40};
inline constexpr int64_t kExactBatch = 8;

// The events of one rank. Steps count from 1.
struct RankScript {
  std::function<void(int64_t step)> at{};  // runs before the forward pass of each attempt at a step
  std::function<void()> at_evaluation{};
  std::function<void(const World& world)> entered{};
  int64_t fail_reduction_of = 0;  // the step whose reduction fails on this rank only
  int64_t reductions_before = 0;  // number of reductions before the reductions of buckets
  // The number, from 1, of the operation that fails on this rank only; 0: none.
  int64_t fail_all_to_all = 0;
  int64_t fail_all_gather = 0;
  // The operation does not fail but returns garbage, as on GPUs when another rank aborted it.
  bool sees_rubbish = false;
  bool confirms = false;      // confirmations reach all ranks, as on GPUs
  int64_t corrupt_at = 0;     // the step before which a parameter is changed
  int64_t not_finite_at = 0;  // the step in which a gradient of the second parameter is NaN
  bool skip_not_finite = false;
  bool scale_loss = false;  // only the optimizer scales; the workload's sums do not change
  std::chrono::seconds timeout = kRankTimeout;
  int64_t global_batch = kExactBatch;
  int64_t micro_batch = 0;  // 0: the job's setting
  // Makes the rank's communicators.
  std::function<CommunicatorFactory(AbandonedConnects&)> communicators = TestCommunicators;
  std::function<void(std::span<const std::byte>)> on_gradient_memory{};  // called before training
  // Folders; empty: nothing is stored.
  std::string checkpoints{};
  CheckpointPlace place{};  // the job's place on the volume `checkpoints`
  std::string shaping{};
  std::string snapshots{};
  bool every_checkpoint = false;  // each step waits for the previous checkpoint, so none is skipped
  Compression compression = Compression::kNone;
  // Makes a workload that replaces ExactWorkload and calls `at` and `at_evaluation`.
  std::function<std::unique_ptr<Workload>(const RankScript& script)> workload{};
};

inline constexpr int64_t kCheckpointEvery = 5;

inline void DieAt(int64_t step, int64_t at) {
  if (step == at) throw std::runtime_error("killed");
}

// Blocks a rank at a step until the test releases it.
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

// Gradients are small integers that depend on step, sample and element. The accuracy is always 1.
class ExactWorkload final : public Workload {
 public:
  explicit ExactWorkload(RankScript script)
      : script_(std::move(script)), order_(1, 64, script_.global_batch) {
    for (const int64_t size : {5, 21, 2}) {
      parameters_.push_back(at::ones({size}, at::kFloat).requires_grad_(true));
    }
  }

  std::vector<at::Tensor> parameters() override { return parameters_; }
  std::string model() const override {
    return "first float32 [5]\nsecond float32 [21]\nthird float32 [2]\n";
  }
  const DataOrder& order() const override { return order_; }
  int64_t held_out_size() const override { return 10; }
  uint64_t fingerprint() const override { return 1; }
  void WarmUp() override {}

  void Load(int64_t step, const MicroBatches& parts) override {
    step_ = step;
    share_ = parts.share();
  }
  Result<double> Forward(StepCollectives&) override {
    if (script_.corrupt_at == step_ + 1) parameters_[0].data_ptr<float>()[0] += 1;
    if (script_.at) script_.at(step_ + 1);
    double loss = 0;
    for (int64_t sample = share_.begin; sample < share_.end; ++sample) {
      loss += static_cast<double>((step_ * script_.global_batch + sample) % 5);
    }
    return loss;
  }
  Result<void> Backward(StepCollectives&) override {
    int64_t element = 0;
    for (at::Tensor& parameter : parameters_) {
      float* gradient = parameter.mutable_grad().data_ptr<float>();
      for (int64_t i = 0; i < parameter.numel(); ++i, ++element) {
        for (int64_t sample = share_.begin; sample < share_.end; ++sample) {
          gradient[i] += static_cast<float>((step_ * 31 + sample * 7 + element * 3) % 17 - 8);
        }
      }
    }
    if (script_.not_finite_at == step_ + 1) parameters_[1].mutable_grad()[4] = NAN;
    return {};
  }
  Evaluation Evaluate(Share share) override {
    if (script_.at_evaluation) script_.at_evaluation();
    return {.loss_sum = 0, .correct = share.size()};
  }

 private:
  const RankScript script_;
  const DataOrder order_;
  std::vector<at::Tensor> parameters_;
  int64_t step_ = 0;
  Share share_;
};

// For each kind, the number, counted from 1, of the operation that fails; 0: none.
struct Blindness {
  int64_t reductions = 0;
  int64_t all_to_alls = 0;
  int64_t all_gathers = 0;
  bool rubbish = false;  // the operation appears to succeed, but with garbage
  bool confirms = false;
};

// A communicator that reports a failure of an operation that succeeded on the other ranks, or a
// success although the result is garbage. After a failure, the communicator confirms nothing.
class HalfBlindCommunicator final : public CommunicatorWrapper {
 public:
  // Operations decrement `left`, which several communicators may share.
  HalfBlindCommunicator(std::unique_ptr<Communicator> owned, Blindness& left)
      : CommunicatorWrapper(*owned), owned_(std::move(owned)), left_(left) {}

  WorkHandle AllReduce(Elements values, ReduceOp op, Deadline deadline) override {
    return Seen(inner().AllReduce(values, op, deadline), left_.reductions, values.memory());
  }
  WorkHandle AllGather(std::span<const std::byte> mine, std::span<std::byte> all,
                       Deadline deadline) override {
    return Seen(inner().AllGather(mine, all, deadline), left_.all_gathers, all);
  }
  WorkHandle AllToAll(std::span<const std::byte> send, std::vector<std::size_t> send_bytes,
                      std::span<std::byte> receive, std::vector<std::size_t> receive_bytes,
                      Deadline deadline) override {
    return Seen(
        inner().AllToAll(send, std::move(send_bytes), receive, std::move(receive_bytes), deadline),
        left_.all_to_alls, receive);
  }
  WorkHandle Confirm(Deadline deadline) override {
    if (failed_) return failed_;
    if (!left_.confirms) return inner().Confirm(deadline);
    return inner().AllReduce(std::span(&confirmed_, 1), deadline);
  }

 private:
  WorkHandle Seen(WorkHandle work, int64_t& left, std::span<std::byte> came) {
    if (--left != 0) return work;
    EXPECT_TRUE(work->Wait().ok());
    if (left_.rubbish) {
      std::ranges::fill(came, std::byte{0x41});
      return work;
    }
    failed_ = std::make_shared<Work>(work->deadline());
    failed_->Complete(Error{ErrorKind::kUnavailable, "this rank alone lost the others"});
    return failed_;
  }

  const std::unique_ptr<Communicator> owned_;
  Blindness& left_;
  WorkHandle failed_;
  float confirmed_ = 0;
};

// A rank that runs until it is released, its script ends it, or the launcher closes.
class ElasticRank {
 public:
  ElasticRank(FakeLauncher& launcher, std::string name, std::string folder, int64_t steps,
              RankScript script)
      : ElasticRank(launcher.Member(name), name, std::move(folder), steps, std::move(script)) {}
  ElasticRank(std::unique_ptr<MembershipSource> membership, std::string name, std::string folder,
              int64_t steps, RankScript script)
      : name_(std::move(name)), folder_(std::move(folder)) {
    thread_ = std::jthread([this, steps, membership = std::move(membership),
                            script = std::move(script)] { Run(*membership, steps, script); });
  }

  const std::string& name() const { return name_; }

  // REQUIRES for all functions below: Await() has returned.
  const Result<RunSummary>& Await() {
    if (thread_.joinable()) thread_.join();
    return summary_;
  }
  SessionEnd end() const { return end_; }
  // Returns the parameters, then the velocity, then the loss scale, if any.
  const std::vector<float>& state() const { return state_; }
  // Return, for a sharded state, this rank's rows at the end and the index of the first row.
  const std::vector<float>& shard() const { return shard_; }
  int64_t first_row() const { return first_row_; }
  int summaries() const { return static_cast<int>(Logged("summary").size()); }
  std::vector<int64_t> logged_steps() const {
    std::vector<int64_t> steps;
    for (const auto& line : Logged("step")) steps.push_back(line.at("step").get<int64_t>());
    return steps;
  }

 private:
  void Run(MembershipSource& membership, int64_t steps, RankScript script) {
    AbandonedConnects abandoned_connects;
    StateKeeper* kept = nullptr;
    script.at = [&kept, wait = script.every_checkpoint, at = script.at](int64_t step) {
      if (wait && kept != nullptr) {
        EXPECT_TRUE(kept->AwaitWritten(FakeLauncher::kLimit));
      }
      if (at) at(step);
    };
    const std::unique_ptr<Workload> workload =
        script.workload ? script.workload(script) : std::make_unique<ExactWorkload>(script);
    Buckets buckets(workload->parameters(),
                    {.first_bytes = 32, .bytes = 64, .averages = workload->averages()});
    Sgd optimizer(buckets.flat_parameters(), buckets.flat_gradients(),
                  {.learning_rate = 0.01,
                   .momentum = 0.9,
                   .schedule = RateSchedule::kCosine,
                   .total_steps = steps,
                   .averages = workload->averages(),
                   .loss_scale = script.scale_loss ? std::make_shared<LossScale>(at::kCPU)
                                                   : std::shared_ptr<LossScale>()});
    auto audit = AuditLog::Open(folder_);
    auto log = StepLog::Open(folder_ + "/" + name_ + ".log");
    ASSERT_TRUE(audit.ok() && log.ok());
    const SystemClock clock;
    const CommunicatorFactory make = script.communicators(abandoned_connects);
    if (script.on_gradient_memory) {
      const at::Tensor& gradients = buckets.flat_gradients();
      script.on_gradient_memory(std::as_bytes(
          std::span(gradients.data_ptr<float>(), static_cast<std::size_t>(gradients.numel()))));
    }
    // With compression, the communicator itself reduces only the scalars of a step.
    const bool compressed = script.compression != Compression::kNone;
    Blindness left{.reductions = script.fail_reduction_of *
                                 ((compressed ? 1 : buckets.count()) + script.reductions_before),
                   .all_to_alls = script.fail_all_to_all,
                   .all_gathers = script.fail_all_gather,
                   .rubbish = script.sees_rubbish,
                   .confirms = script.confirms};
    const auto factory = [&](const World& world,
                             Deadline deadline) -> Result<std::unique_ptr<Communicator>> {
      auto made = make(world, deadline);
      if (!made.ok()) return made;
      return std::unique_ptr<Communicator>(new HalfBlindCommunicator(*std::move(made), left));
    };
    KeeperOptions kept_where;
    kept_where.checkpoints = script.place;
    kept_where.checkpoints.volume = script.checkpoints;
    kept_where.checkpoint_every = kCheckpointEvery;
    kept_where.snapshot_folder = script.snapshots;
    kept_where.identity.run = script.place.uid.empty() ? "run" : script.place.uid;
    kept_where.identity.model = workload->model();
    kept_where.identity.shaping = script.shaping;
    kept_where.sharded = workload->sharded();
    const TrainableState state = optimizer.state();
    const auto keeper = StateKeeper::Open(std::move(kept_where), state, membership, clock);
    ASSERT_TRUE(keeper.ok()) << keeper.error().message;
    kept = keeper->get();
    const auto codec = MakeHostRowCodec(script.compression);
    const auto reducer = MakeCompressedGradients(codec.get(), buckets.gradient_counts());
    Session session(membership, factory, buckets, state, *audit, clock,
                    {.global_batch = script.global_batch,
                     .micro_batch = script.micro_batch,
                     .timeout = script.timeout,
                     .fingerprint = 0,
                     .entered = script.entered,
                     .checkpointer = keeper->get(),
                     .sharded = workload->sharded(),
                     .reducer = reducer.get()});
    const Result<void> joined = session.Join();
    TrainPlan plan;
    plan.steps = steps;
    plan.global_batch = script.global_batch;
    plan.skip_not_finite = script.skip_not_finite;
    summary_ = joined.ok() ? Train(*workload, session, optimizer, *log, clock, plan)
                           : Result<RunSummary>(joined.error());
    end_ = session.end();
    for (const std::span<float> values : state) {
      state_.insert(state_.end(), values.begin(), values.end());
    }
    if (workload->sharded() == nullptr) return;
    const ShardView view = workload->sharded()->view();
    first_row_ = view.first_row;
    shard_.assign(view.values.begin(), view.values.end());
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
  SessionEnd end_ = SessionEnd::kNone;
  std::vector<float> state_;
  int64_t first_row_ = 0;
  std::vector<float> shard_;
  std::jthread thread_;
};

// Returns the state after a run of one rank without faults.
inline std::vector<float> TrainAlone(int64_t steps, int64_t global_batch = kExactBatch) {
  const TemporaryFolder folder;
  FakeLauncher launcher;
  ElasticRank rank(launcher, "alone", folder.path(), steps, {.global_batch = global_batch});
  launcher.Form({"alone"});
  EXPECT_TRUE(rank.Await().ok());
  return rank.state();
}

}  // namespace ringmaster::trainer
