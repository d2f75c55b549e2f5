#include "worker/trainer/elastic_torch/session.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

using control::RankPhase;

// What travels with the last bucket.
constexpr std::size_t kLossScalar = 0;
constexpr std::size_t kSwitchScalar = 1;
constexpr std::size_t kPartsScalar = 2;  // how many have written their part of a checkpoint
constexpr std::size_t kCheckpointScalar = 3;

// A bucket: its gradients, and what travels exactly with the last one.
struct BucketParts {
  std::span<float> gradients;
  std::span<float> exact;
};

BucketParts PartsOf(Buckets& buckets, int index) {
  const Elements bucket = buckets.Bucket(index);
  const std::span<float> all(reinterpret_cast<float*>(bucket.data), bucket.count);
  const bool last = index + 1 == buckets.count();
  const std::size_t exact = last ? buckets.exact_count() : 0;
  return {.gradients = all.first(all.size() - exact), .exact = all.last(exact)};
}

std::vector<std::size_t> SizesOf(Buckets& buckets) {
  std::vector<std::size_t> sizes;
  for (int i = 0; i < buckets.count(); ++i) sizes.push_back(PartsOf(buckets, i).gradients.size());
  return sizes;
}

}  // namespace

Session::Session(MembershipSource& membership, CommunicatorFactory make_communicator,
                 Buckets& buckets, TrainableState state, AuditLog& audit, const Clock& clock,
                 SessionOptions options)
    : membership_(membership),
      make_communicator_(std::move(make_communicator)),
      buckets_(buckets),
      state_(std::move(state)),
      audit_(audit),
      clock_(clock),
      options_(std::move(options)),
      position_(options_.position ? options_.position : std::make_shared<Position>()) {
  if (options_.codec != nullptr) feedback_.emplace(*options_.codec, SizesOf(buckets_));
}

Session::~Session() { CloseWorld(); }

// This world is over because of `cause`; once the next one stands, `nothing` is what came of the
// call.
template <typename Nothing>
Result<Nothing> Session::GoOn(const Error& cause, Nothing nothing) {
  Leave(cause);
  const Result<void> entered = EnterNext(cause);
  if (!entered.ok()) return entered.error();
  return nothing;
}

void Session::Begin() {
  works_.clear();
  all_began_ = false;
  waited_ = networked_ = {};
  step_error_.reset();
  audit_.Begun(world_, held_.version.step + 1, share());
  if (feedback_) feedback_->Begin(held_.Next(world_.epoch), world_.rank, world_.size);
  deadline_ = StepDeadline();
  buckets_.Arm([this](int index) { works_.push_back(ReduceBucket(index)); });
  if (membership_.SwitchWanted(world_.epoch, held_.version.step + 1)) {
    buckets_.SetScalar(kSwitchScalar, 1);
  }
  part_written_ = options_.keeper == nullptr ? std::nullopt : options_.keeper->PartWritten();
  if (part_written_) buckets_.SetScalar(kPartsScalar, 1);
  if (world_.rank == 0 && membership_.CheckpointWanted(world_.epoch)) {
    buckets_.SetScalar(kCheckpointScalar, 1);
  }
}

WorkHandle Session::ReduceBucket(int index) {
  if (!reducer_) {
    return communicator_->AllReduce(buckets_.Bucket(index), ReduceOp::kSum, deadline_);
  }
  const BucketParts bucket = PartsOf(buckets_, index);
  return reducer_->Reduce(index, bucket.gradients, bucket.exact, deadline_);
}

void Session::SetLoss(double sum) { buckets_.SetScalar(kLossScalar, sum); }

void Session::SetLoss(const at::Tensor& sum) { buckets_.SetScalar(kLossScalar, sum); }

Result<std::optional<StepResult>> Session::Reduce() {
  if (!step_error_) {
    buckets_.Flush();
    int bucket = 0;
    for (const WorkHandle& work : works_) {
      position_->Enter(RankPhase::kReduce, bucket);
      if (!Await(work, "allreduce", buckets_.Bucket(bucket).bytes(), bucket).ok()) break;
      ++bucket;
    }
    if (!step_error_) static_cast<void>(Confirm());
  }
  if (step_error_) {
    return GoOn(step_error_->WithContext("reducing step " + std::to_string(held_.version.step + 1)),
                std::optional<StepResult>());
  }
  Committed(RankPhase::kUpdate);
  StepResult result{.waited = waited_, .networked = networked_};
  const auto batch = static_cast<double>(options_.global_batch);
  buckets_.weight_gradients().mul_(1.0 / batch);
  const std::vector<float> scalars = buckets_.ReadScalars();
  result.loss = scalars[kLossScalar] / batch;
  // A sum is not finite where one of its terms is not.
  finite_ = std::isfinite(result.loss + buckets_.flat_gradients().sum().item<double>());
  result.finite = finite_;
  if (!finite_ && options_.sharded != nullptr) options_.sharded->LeaveOut();
  switching_ = scalars[kSwitchScalar] > 0;
  checkpoint_wanted_ = scalars[kCheckpointScalar] > 0;
  const bool all_parts = scalars[kPartsScalar] >= static_cast<float>(world_.size);
  if (part_written_ && all_parts) options_.keeper->PartsWritten(*part_written_);
  return std::optional<StepResult>(result);
}

Result<void> Session::Await(const WorkHandle& work, const char* what, std::size_t bytes,
                            int bucket) {
  const auto start = clock_.Now();
  Result<void> done = work->Wait();
  const std::optional<Work::Span> span = work->span();
  // A GPU may still compute what is to be sent.
  waited_ += clock_.Now() - (span ? std::max(start, span->begin) : start);
  if (span) {
    networked_ += span->end - span->begin;
    if (options_.timeline != nullptr) {
      options_.timeline->Add({.name = what,
                              .track = Timeline::Track::kNetwork,
                              .begin = span->begin,
                              .end = span->end,
                              .bucket = bucket,
                              .bytes = bytes});
    }
  }
  if (!done.ok() && !step_error_) step_error_ = done.error();
  return done;
}

Result<void> Session::Collectives::AllReduce(Elements values, ReduceOp op) {
  return session_.Collect(session_.communicator_->AllReduce(values, op, session_.deadline_),
                          "allreduce", values.bytes());
}

Result<void> Session::Collectives::ReduceScatter(Elements all, Elements mine, ReduceOp op) {
  return session_.Collect(session_.communicator_->ReduceScatter(all, mine, op, session_.deadline_),
                          "reduce-scatter", all.bytes());
}

Result<void> Session::Collectives::AllGather(std::span<const std::byte> mine,
                                             std::span<std::byte> all) {
  return session_.Collect(session_.communicator_->AllGather(mine, all, session_.deadline_),
                          "allgather", all.size());
}

Result<void> Session::Collectives::AllToAll(std::span<const std::byte> send,
                                            std::vector<std::size_t> send_bytes,
                                            std::span<std::byte> receive,
                                            std::vector<std::size_t> receive_bytes) {
  return session_.Collect(
      session_.communicator_->AllToAll(send, std::move(send_bytes), receive,
                                       std::move(receive_bytes), session_.deadline_),
      "all-to-all", send.size());
}

// What was waited for in this step is what all ranks together made: the step's own error otherwise.
Result<void> Session::Confirm() {
  return Await(communicator_->Confirm(deadline_), "confirmation", 0);
}

// A collective amid computing. The step's first one shows that every rank has begun it, so the step
// before is applied everywhere.
Result<void> Session::Collect(const WorkHandle& work, const char* what, std::size_t bytes) {
  position_->Enter(RankPhase::kReduce);
  Result<void> done = Await(work, what, bytes);
  if (done.ok() && !all_began_) {
    done = Confirm();
    all_began_ = done.ok();
    if (all_began_) Committed(RankPhase::kCompute);
  }
  position_->Enter(RankPhase::kCompute);
  return done;
}

Result<void> Session::Applied(const control::Progress& progress) {
  // A step that is not finite leaves no residual: it would be none either.
  if (feedback_ && finite_) feedback_->Applied();
  held_.version = held_.Next(world_.epoch);
  held_.origin = StateOrigin::kTraining;
  held_.left_out = !finite_;
  position_->SetStep(held_.version.step);
  if (options_.sharded != nullptr) options_.sharded->Applied(held_);
  if (audit_.on()) {
    if (options_.mirror != nullptr) options_.mirror->Pull();
    const auto part =
        options_.sharded == nullptr ? std::nullopt : std::optional(options_.sharded->checksum());
    audit_.Applied(world_, held_.version.step, share(), Checksum(state_), part);
  }
  unreported_ = progress;
  if (options_.keeper != nullptr) {
    position_->Enter(RankPhase::kEvaluate);  // to copy much state takes long
    options_.keeper->Applied(world_, held_);
    position_->Enter(RankPhase::kUpdate);
  }
  if (!switching_) return {};
  if (options_.sharded != nullptr) {
    position_->Enter(RankPhase::kAdopt);
    const Result<void> given = options_.sharded->HandOver(
        *communicator_, membership_.Leaving(world_.epoch), options_.timeout);
    if (!given.ok()) LogWarn("Left a world in haste", {{"reason", given.error().message}});
  }
  CloseWorld();
  membership_.AtBoundary(world_, held_.version.step);
  return EnterNext(Error{ErrorKind::kUnavailable, "no world followed"});
}

// A collective has completed, so every rank has applied the step before it. `phase` is the next.
void Session::Committed(RankPhase phase) {
  if (!unreported_) return position_->Enter(phase);
  if (world_.rank == 0) membership_.Report(world_, *unreported_);
  if (options_.keeper != nullptr) {
    position_->Enter(RankPhase::kEvaluate);  // to copy much state takes long
    options_.keeper->Committed(world_, held_, std::exchange(checkpoint_wanted_, false));
  }
  position_->Enter(phase);
  unreported_.reset();
}

Result<bool> Session::Sum(std::span<float> values) {
  position_->Enter(RankPhase::kReduce);
  const Result<void> summed =
      WaitConfirmed(*communicator_, communicator_->AllReduce(values, StepDeadline()));
  if (summed.ok()) {
    Committed(RankPhase::kReduce);
    return true;
  }
  return GoOn(summed.error(), false);
}

Result<std::optional<NotFinite>> Session::FindNotFinite(
    const std::function<Result<void>()>& compute) {
  step_error_.reset();
  deadline_ = StepDeadline();
  buckets_.Arm([](int) {});
  const Result<void> computed = compute();
  if (!computed.ok() && !step_error_) return computed.error();
  buckets_.Flush();
  const int32_t mine = buckets_.FirstNotFinite();
  std::vector<int32_t> all(static_cast<std::size_t>(world_.size));
  if (!step_error_) {
    static_cast<void>(collectives_.AllGather(std::as_bytes(std::span(&mine, 1)),
                                             std::as_writable_bytes(std::span(all))));
  }
  if (!step_error_) static_cast<void>(Confirm());
  if (step_error_) return GoOn(*step_error_, std::optional<NotFinite>());
  NotFinite found;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] < 0) continue;
    if (found.ranks++ > 0) continue;
    found.rank = static_cast<int>(rank);
    found.parameter = all[rank];
  }
  return std::optional<NotFinite>(found);
}

// All ranks' parts of the last checkpoint, before rank 0 may complete it.
Result<bool> Session::FinishParts() {
  if (options_.sharded == nullptr || options_.keeper == nullptr) return true;
  // Whoever is done with his part waits for the others' from Sum() on.
  position_->Enter(RankPhase::kEvaluate);
  options_.keeper->FinishPart(world_, held_, WorldOver());
  const std::optional<StateVersion> written = options_.keeper->PartWritten();
  std::array<float, 1> ranks{written ? 1.0F : 0.0F};
  const Result<bool> summed = Sum(ranks);
  if (!summed.ok() || !*summed) return summed;
  if (written && ranks[0] >= static_cast<float>(world_.size)) {
    options_.keeper->PartsWritten(*written);
  } else {
    options_.keeper->WorldEnded();
  }
  position_->Enter(RankPhase::kDone);
  return true;
}

std::function<bool()> Session::WorldOver() const {
  return [over = world_over_] { return over->load(); };
}

Result<bool> Session::Finish(const control::Progress& progress) {
  position_->Enter(RankPhase::kDone);
  if (const Result<bool> written = FinishParts(); !written.ok() || !*written) return written;
  if (options_.keeper != nullptr) options_.keeper->Finished(world_, held_, WorldOver());
  if (!held_.TrainedHere()) membership_.NothingTrained();
  const Result<bool> released = membership_.Finish(world_, progress);
  if (!released.ok() || *released) return released;
  return GoOn(Error{ErrorKind::kCancelled, "the world is over"}, false);
}

}  // namespace ringmaster::trainer
