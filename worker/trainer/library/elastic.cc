#include "include/ringmaster/elastic.h"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/control/pod_contract.h"
#include "worker/trainer/checkpoint/state_keeper.h"
#include "worker/trainer/comm/abandoned_connects.h"
#include "worker/trainer/elastic_torch/buckets.h"
#include "worker/trainer/elastic_torch/session.h"
#include "worker/trainer/elastic_torch/tensor_state.h"
#include "worker/trainer/environment/make_communicators.h"
#include "worker/trainer/environment/rank_environment.h"
#include "worker/trainer/environment/rank_failure.h"
#include "worker/trainer/gpu/gpu.h"
#include "worker/trainer/library/buffer_means.h"
#include "worker/trainer/library/check_inputs.h"
#include "worker/trainer/numeric/alignment.h"
#include "worker/trainer/numeric/fingerprint.h"
#include "worker/trainer/telemetry/audit_log.h"

namespace ringmaster {
namespace {

using control::RankPhase;
using trainer::SessionEnd;

Error Wrong(const std::string& text) { return {ErrorKind::kInvalid, text}; }

std::chrono::milliseconds TimeoutOfJob() {
  const int seconds = trainer::NumberIn(control::kEnvConnectTimeoutSeconds);
  return seconds > 0 ? std::chrono::seconds(seconds) : trainer::SessionOptions{}.timeout;
}

// Returns a line for each tensor. A checkpoint with a different text is rejected.
std::string ModelText(const std::vector<at::Tensor>& parameters, const Elastic::Options& options) {
  std::string lines;
  const auto add = [&lines](const char* kind, const std::vector<at::Tensor>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      lines += kind + std::to_string(i) + " " + trainer::FormatOf(tensors[i]) + "\n";
    }
  };
  add("parameter", parameters);
  add("state", options.state);
  add("buffer", options.buffers);
  return lines + trainer::kLayoutText;
}

std::string ShapingText(const Elastic::Options& options) {
  std::string lines = "global_batch=" + std::to_string(options.global_batch) +
                      "\nsteps=" + std::to_string(options.steps) + "\n" + options.settings;
  if (lines.back() != '\n') lines += '\n';
  return lines;
}

// Opens the GPU of `device`; returns null if `device` is the CPU.
Result<std::unique_ptr<trainer::Gpu>> GpuOf(at::Device device) {
  if (device.is_cpu()) return std::unique_ptr<trainer::Gpu>();
  if (!device.is_cuda()) return Wrong("collectives are not supported on " + device.str());
  const Result<std::optional<int>> number =
      trainer::ChooseGpu({.device = "cuda",
                          .gpus = trainer::NumberIn(control::kEnvGpus),
                          .local_rank = device.index(),
                          .share = trainer::GpusAreShared(),
                          .flag = "the parameters are on " + device.str(),
                          .pinned = device.index() == 0 ? trainer::PinnedGpu() : ""},
                         trainer::FindGpus());
  if (!number.ok()) return number.error();
  return trainer::OpenGpu(number->value());
}

Error ErrorOf(const std::exception& error) {
  return {ErrorKind::kInternal, std::string("while computing: ") + error.what()};
}

}  // namespace

// The parts of a session, in the order in which they are created, and the session's result.
class [[gnu::visibility("hidden")]] Elastic::Rank {
 public:
  explicit Rank(Options options) : options_(std::move(options)) {
    progress_.total_steps = options_.steps;
  }

  Result<void> Join(const std::vector<at::Tensor>& parameters);
  std::optional<Share> Begin();
  void Backward(const at::Tensor& loss_sum);
  bool BackwardAndReduce(const at::Tensor& loss_sum);
  void Applied();
  void Fail(const Error& error);
  // Leaves the job. Returns false if a thread hangs, for which the destructor would wait.
  bool Leave();

  int64_t step() const { return session_ ? session_->applied_steps() : 0; }
  int rank() const { return session_ ? session_->world().rank : 0; }
  int world_size() const { return session_ ? session_->world().size : 1; }
  int64_t micro_batch() const { return session_ ? session_->micro_batch() : options_.global_batch; }
  double loss() const { return progress_.loss; }
  const std::string& error() const { return error_; }
  int exit_code() const { return exit_code_; }

 private:
  // How far the program has come with the current step.
  enum class Stage { kNone, kBegun, kReduced };

  bool InOrder(Stage needed, const std::string& rule);
  Result<void> Compute(const at::Tensor& loss_sum);
  void RunBackward(const at::Tensor& loss_sum, double buffers_weight);
  Result<std::unique_ptr<trainer::StateKeeper>> OpenKeeper(std::string model, std::string shaping);

  const Options options_;
  const SystemClock clock_;
  trainer::AbandonedConnects abandoned_connects_;
  std::shared_ptr<trainer::Position> position_;
  trainer::AuditLog audit_;
  std::unique_ptr<trainer::Gpu> gpu_;
  std::unique_ptr<trainer::MembershipSource> membership_;
  BufferMeans buffers_;
  std::unique_ptr<trainer::Buckets> buckets_;
  std::unique_ptr<trainer::TensorState> state_;
  std::unique_ptr<trainer::StateKeeper> keeper_;
  std::unique_ptr<trainer::Session> session_;

  Stage stage_ = Stage::kNone;
  Clock::Time begun_{};
  std::chrono::nanoseconds waited_{0};  // time that this step spent waiting for collectives
  at::Tensor earlier_losses_;           // sum of the losses of this step so far; undefined if none
  Result<void> computed_;               // the result of Backward()
  control::Progress progress_;
  bool released_ = false;
  std::string error_;
  int exit_code_ = 0;
};

Result<void> Elastic::Rank::Join(const std::vector<at::Tensor>& parameters) {
  position_ = trainer::MakePosition();
  if (auto fits = CheckInputs(parameters, options_); !fits.ok()) return fits;
  auto audit = trainer::AuditLog::Open(trainer::TextIn(trainer::kEnvAuditLog));
  if (!audit.ok()) return audit.error();
  audit_ = *std::move(audit);
  auto gpu = GpuOf(parameters.front().device());
  if (!gpu.ok()) return gpu.error();
  gpu_ = *std::move(gpu);
  auto membership = trainer::JoinJob(clock_);
  if (!membership.ok()) return membership.error();
  membership_ = *std::move(membership);

  const std::string model = ModelText(parameters, options_);
  const std::string shaping = ShapingText(options_);
  trainer::Fingerprint fingerprint;
  fingerprint.Add(model);
  fingerprint.Add(shaping);
  fingerprint.Add(RINGMASTER_VERSION);
  trainer::GradientMemory memory;
  if (gpu_) memory = [this](std::size_t bytes) { return gpu_->ReducedInPlace(bytes); };
  trainer::BucketOptions bucket_options;
  buffers_ = BufferMeans(options_.buffers);
  std::vector<at::Tensor> reduced = buffers_.means();
  for (const at::Tensor& mean : reduced) {
    bucket_options.averages += trainer::AlignedCount(mean.numel());
  }
  reduced.insert(reduced.end(), parameters.begin(), parameters.end());
  buckets_ = std::make_unique<trainer::Buckets>(std::move(reduced), bucket_options, memory);
  std::vector<at::Tensor> state{buckets_->flat_parameters()};
  for (const at::Tensor& tensor : options_.state) {
    state.push_back(tensor.detach().as_strided({tensor.numel()}, {1}));
  }
  state_ = std::make_unique<trainer::TensorState>(std::move(state));
  auto keeper = OpenKeeper(model, shaping);
  if (!keeper.ok()) return keeper.error();
  keeper_ = *std::move(keeper);
  session_ = std::make_unique<trainer::Session>(
      *membership_,
      trainer::MakeCommunicators(gpu_.get(), abandoned_connects_, trainer::HostTransport::kAuto),
      *buckets_, state_->view(), audit_, clock_,
      trainer::SessionOptions{.global_batch = options_.global_batch,
                              .timeout = options_.timeout.value_or(TimeoutOfJob()),
                              .fingerprint = fingerprint.value(),
                              .device_works = trainer::AskGpu(gpu_.get()),
                              .position = position_,
                              .checkpointer = keeper_.get(),
                              .mirror = state_->mirror()});
  return session_->Join();
}

Result<std::unique_ptr<trainer::StateKeeper>> Elastic::Rank::OpenKeeper(std::string model,
                                                                        std::string shaping) {
  trainer::KeeperOptions keep{
      .checkpoints = {.volume = trainer::TextIn(control::kEnvCheckpointDir),
                      .from_job = trainer::TextIn(control::kEnvRestoreJob),
                      .from_path = trainer::TextIn(control::kEnvRestorePath)},
      .snapshot_folder = trainer::TextIn(control::kEnvSnapshotDir),
      .identity = {.run = trainer::TextIn(control::kEnvJobUid),
                   .model = std::move(model),
                   .shaping = std::move(shaping)},
      .mirror = state_->mirror()};
  trainer::NameJob(keep.checkpoints);
  const int every = trainer::NumberIn(control::kEnvCheckpointEvery);
  const int kept = trainer::NumberIn(control::kEnvCheckpointKeep);
  if (every > 0) keep.checkpoint_every = every;
  if (kept > 0) keep.checkpoint_keep = kept;
  return trainer::StateKeeper::Open(std::move(keep), state_->view(), *membership_, clock_);
}

// Returns false after an error, and fails if the program broke the rule: a call out of order would
// apply a step, or change parameters, on this rank alone.
bool Elastic::Rank::InOrder(Stage needed, const std::string& rule) {
  if (!error_.empty()) return false;
  if (stage_ == needed) return true;
  Fail(Wrong("step " + std::to_string(step() + 1) + ": " + rule));
  return false;
}

std::optional<Elastic::Share> Elastic::Rank::Begin() {
  if (!error_.empty() || released_) return std::nullopt;
  if (stage_ == Stage::kReduced) {
    Fail(Wrong("step " + std::to_string(step() + 1) +
               ": Begin() was called before Applied(); call Applied() after each step for which "
               "BackwardAndReduce() returns true"));
    return std::nullopt;
  }
  if (const auto kept = buffers_.Check(); !kept.ok()) return Fail(kept.error()), std::nullopt;
  // If a world breaks before all ranks are released, another world follows, whose ranks may have to
  // repeat the last step.
  while (step() >= options_.steps) {
    progress_.step = step();
    const trainer::Outcome<> finished = session_->Finish(progress_);
    if (finished.failed()) Fail(finished.error());
    released_ = finished.happened();
    buffers_.Restore();
    if (released_ || finished.failed()) return std::nullopt;
  }
  buffers_.Restore();
  begun_ = clock_.Now();
  position_->Enter(RankPhase::kCompute);
  earlier_losses_.reset();
  computed_ = {};
  session_->Begin();
  stage_ = Stage::kBegun;
  const trainer::Share share = session_->share();
  return Share{share.begin, share.end};
}

void Elastic::Rank::Backward(const at::Tensor& loss_sum) {
  if (!InOrder(Stage::kBegun, "Backward() was called before Begin()")) return;
  if (!computed_.ok()) return;
  session_->ExpectAnotherBackward();
  try {
    const at::Tensor loss = loss_sum.detach().reshape({});
    earlier_losses_ = earlier_losses_.defined() ? earlier_losses_ + loss : loss;
    RunBackward(loss_sum, /*buffers_weight=*/0);
  } catch (const std::exception& error) {
    computed_ = ErrorOf(error);
  }
}

// Runs the backward pass; returns LibTorch's error, or the program's.
Result<void> Elastic::Rank::Compute(const at::Tensor& loss_sum) {
  if (const auto kept = buffers_.Check(); !kept.ok()) return kept;
  if (!computed_.ok()) return computed_;
  try {
    const at::Tensor loss = loss_sum.detach();
    session_->SetLoss(earlier_losses_.defined() ? loss.reshape({}) + earlier_losses_ : loss);
    RunBackward(loss_sum, static_cast<double>(session_->share().size()) /
                              static_cast<double>(options_.global_batch));
  } catch (const std::exception& error) {
    return ErrorOf(error);
  }
  const std::string misuse = buckets_->Misuse();
  if (!misuse.empty()) return Wrong("step " + std::to_string(step() + 1) + ": " + misuse);
  return {};
}

void Elastic::Rank::RunBackward(const at::Tensor& loss_sum, double buffers_weight) {
  torch::autograd::variable_list roots{loss_sum};
  buffers_.AddRoots(buffers_weight, roots);
  torch::autograd::backward(roots);
}

bool Elastic::Rank::BackwardAndReduce(const at::Tensor& loss_sum) {
  if (!InOrder(Stage::kBegun, "BackwardAndReduce() was called before Begin()")) return false;
  stage_ = Stage::kNone;
  const Result<void> computed = Compute(loss_sum);
  if (!computed.ok() && !session_->step_broken()) return Fail(computed.error()), false;
  const trainer::Outcome<trainer::StepResult> reduced = session_->Reduce();
  if (reduced.failed()) Fail(reduced.error());
  if (!reduced.happened()) return false;
  if (!reduced->finite) {
    Fail(Wrong("step " + std::to_string(step() + 1) +
               ": the loss or a gradient is NaN or infinite: training diverged; try a smaller "
               "learning rate or check the data"));
    return false;
  }
  waited_ = reduced->waited;
  progress_.loss = reduced->loss;
  stage_ = Stage::kReduced;
  return true;
}

void Elastic::Rank::Applied() {
  if (!InOrder(Stage::kReduced,
               "Applied() was called, but no step was reduced; if BackwardAndReduce() returns "
               "false, skip the optimizer's step and Applied(), and call Begin()")) {
    return;
  }
  stage_ = Stage::kNone;
  if (const auto kept = buffers_.Check(); !kept.ok()) return Fail(kept.error());
  buffers_.Adopt();
  const auto took = clock_.Now() - begun_;
  const double seconds = std::chrono::duration<double>(took).count();
  position_->Applied(step() + 1, took, took - waited_);
  progress_.step = step() + 1;
  progress_.samples_per_second = static_cast<double>(options_.global_batch) / seconds;
  if (const Result<void> applied = session_->Applied(progress_); !applied.ok()) {
    return Fail(applied.error());
  }
  position_->Enter(RankPhase::kEvaluate);  // the program may do long work between steps
}

bool Elastic::Rank::Leave() {
  session_.reset();
  return (!keeper_ || keeper_->Stop(std::chrono::seconds(2))) && abandoned_connects_.Hanging() == 0;
}

void Elastic::Rank::Fail(const Error& error) {
  const SessionEnd end = session_ ? session_->end() : SessionEnd::kNone;
  std::optional<trainer::GpuFault> fault;
  if (gpu_ != nullptr) fault = trainer::FaultOfOwnGpu(/*opened=*/true);
  const trainer::RankFailure failure = trainer::FailureOf(error, end, fault, trainer::PinnedGpu());
  error_ = failure.message;
  exit_code_ = failure.exit_code;
}

std::unique_ptr<Elastic> Elastic::Start(std::vector<at::Tensor> parameters, Options options) {
  static std::once_flag log;
  std::call_once(log, InitLog, program_invocation_short_name, "info", LogFormat::kText);
  auto rank = std::make_unique<Rank>(std::move(options));
  try {
    if (const Result<void> joined = rank->Join(parameters); !joined.ok()) {
      rank->Fail(joined.error());
    }
  } catch (const std::exception& error) {  // thrown by LibTorch
    rank->Fail({ErrorKind::kInternal, std::string("while starting: ") + error.what()});
  }
  return std::unique_ptr<Elastic>(new Elastic(std::move(rank)));
}

Elastic::Elastic(std::unique_ptr<Rank> rank) : rank_(std::move(rank)) {}
Elastic::~Elastic() {
  if (rank_->Leave()) return;
  // Threads that hang may use the rank until the process has ended, and LibTorch's static objects
  // are destroyed before that. So the rank is never destroyed.
  static Mutex& mutex = *new Mutex;
  static auto& left = *new std::vector<std::unique_ptr<Rank>>;
  const MutexLock lock(mutex);
  left.push_back(std::move(rank_));
}

std::optional<Elastic::Share> Elastic::Begin() try {
  return rank_->Begin();
} catch (const std::exception& error) {
  return rank_->Fail(ErrorOf(error)), std::nullopt;
}
void Elastic::Backward(const at::Tensor& loss_sum) { rank_->Backward(loss_sum); }
bool Elastic::BackwardAndReduce(const at::Tensor& loss_sum) try {
  return rank_->BackwardAndReduce(loss_sum);
} catch (const std::exception& error) {
  return rank_->Fail(ErrorOf(error)), false;
}
void Elastic::Applied() try { rank_->Applied(); } catch (const std::exception& error) {
  rank_->Fail(ErrorOf(error));
}

int64_t Elastic::step() const { return rank_->step(); }
int Elastic::rank() const { return rank_->rank(); }
int64_t Elastic::micro_batch() const { return rank_->micro_batch(); }
int Elastic::world_size() const { return rank_->world_size(); }
double Elastic::loss() const { return rank_->loss(); }
const std::string& Elastic::error() const { return rank_->error(); }

int Elastic::Report() const {
  if (!error().empty()) {
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, error().c_str());
  }
  return rank_->exit_code();
}

}  // namespace ringmaster
