#include "worker/trainer/elastic_torch/step_reducer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>

namespace ringmaster::trainer {
namespace {

using control::RankPhase;

// The scalars of the last bucket, by index.
constexpr int64_t kLossScalar = 0;
constexpr int64_t kLeaveScalar = 1;
constexpr int64_t kPartsScalar = 2;
constexpr int64_t kCheckpointScalar = 3;
constexpr int64_t kSnapshotScalar = 4;

}  // namespace

StepReducer::StepReducer(Buckets& buckets, const Clock& clock, const SessionOptions& options,
                         Committed committed)
    : buckets_(buckets),
      clock_(clock),
      options_(options),
      position_(*options.position),
      committed_(std::move(committed)) {}

void StepReducer::Begin(Communicator& communicator, Deadline deadline, const StepVotes& votes) {
  communicator_ = &communicator;
  deadline_ = deadline;
  works_.clear();
  all_began_ = false;
  waited_ = networked_ = {};
  error_.reset();
  buckets_.Arm([this](int index) { works_.push_back(ReduceBucket(index)); });
  // Votes of zero are skipped: scalars are already zero, and each call starts a kernel on a GPU.
  if (votes.leave > 0) buckets_.SetScalar(kLeaveScalar, votes.leave);
  if (votes.parts != 0) buckets_.SetScalar(kPartsScalar, votes.parts);
  if (votes.checkpoint > 0) buckets_.SetScalar(kCheckpointScalar, votes.checkpoint);
  if (votes.snapshot > 0) buckets_.SetScalar(kSnapshotScalar, votes.snapshot);
}

WorkHandle StepReducer::ReduceBucket(int index) {
  const Elements bucket = buckets_.Bucket(index);
  if (options_.reducer == nullptr) {
    return communicator_->AllReduce(bucket, ReduceOp::kSum, deadline_);
  }
  return options_.reducer->Reduce(index, bucket, buckets_.exact_count(index), deadline_);
}

void StepReducer::SetLoss(double sum) { buckets_.SetScalar(kLossScalar, sum); }

void StepReducer::SetLoss(const at::Tensor& sum) { buckets_.SetScalar(kLossScalar, sum); }

Result<ReducedStep> StepReducer::Reduce() {
  if (!error_) {
    buckets_.Flush();
    // Without a reducer, the confirmation is queued directly after the buckets.
    WorkHandle confirmation;
    if (options_.reducer == nullptr) confirmation = communicator_->Confirm(deadline_);
    int bucket = 0;
    for (const WorkHandle& work : works_) {
      position_.Enter(RankPhase::kReduce, bucket);
      if (!Await(work, "allreduce", buckets_.Bucket(bucket).bytes(), bucket).ok()) break;
      ++bucket;
    }
    if (!error_ && !confirmation) confirmation = communicator_->Confirm(deadline_);
    if (!error_) static_cast<void>(AwaitConfirmed(confirmation));
  }
  if (error_) return *error_;
  committed_(RankPhase::kUpdate);
  ReducedStep step{.result = {.waited = waited_, .networked = networked_}, .votes = {}};
  const auto batch = static_cast<double>(options_.global_batch);
  const auto [scalars, finite] = buckets_.ToMeans(options_.global_batch);
  step.result.loss = scalars[kLossScalar] / batch;
  step.result.finite = finite && std::isfinite(step.result.loss);
  step.votes = {.leave = scalars[kLeaveScalar],
                .parts = scalars[kPartsScalar],
                .checkpoint = scalars[kCheckpointScalar],
                .snapshot = scalars[kSnapshotScalar]};
  return step;
}

Result<NotFinite> StepReducer::FindNotFinite(Deadline deadline,
                                             const std::function<Result<void>()>& compute) {
  error_.reset();
  deadline_ = deadline;
  buckets_.Arm([](int) {});
  const Result<void> computed = compute();
  if (!computed.ok() && !error_) return computed.error();
  buckets_.Flush();
  own_not_finite_ = buckets_.FirstNotFinite();
  all_not_finite_.resize(static_cast<std::size_t>(size()));
  if (!error_) {
    static_cast<void>(AllGather(std::as_bytes(std::span(&own_not_finite_, 1)),
                                std::as_writable_bytes(std::span(all_not_finite_))));
  }
  if (!error_) static_cast<void>(AwaitConfirmed(communicator_->Confirm(deadline_)));
  if (error_) return *error_;
  NotFinite found;
  for (std::size_t rank = 0; rank < all_not_finite_.size(); ++rank) {
    if (all_not_finite_[rank] < 0) continue;
    if (found.ranks++ > 0) continue;
    found.rank = static_cast<int>(rank);
    found.parameter = all_not_finite_[rank];
  }
  return found;
}

Result<void> StepReducer::AllReduce(Elements values, ReduceOp op) {
  return Collect(communicator_->AllReduce(values, op, deadline_), "allreduce", values.bytes());
}

Result<void> StepReducer::ReduceScatter(Elements all, Elements mine, ReduceOp op) {
  return Collect(communicator_->ReduceScatter(all, mine, op, deadline_), "reduce-scatter",
                 all.bytes());
}

Result<void> StepReducer::AllGather(std::span<const std::byte> mine, std::span<std::byte> all) {
  return Collect(communicator_->AllGather(mine, all, deadline_), "allgather", all.size());
}

Result<void> StepReducer::AllToAll(std::span<const std::byte> send,
                                   std::vector<std::size_t> send_bytes,
                                   std::span<std::byte> receive,
                                   std::vector<std::size_t> receive_bytes) {
  return Collect(communicator_->AllToAll(send, std::move(send_bytes), receive,
                                         std::move(receive_bytes), deadline_),
                 "all-to-all", send.size());
}

// Runs a collective for the computation; the first one confirms that all ranks began the step.
Result<void> StepReducer::Collect(const WorkHandle& work, const char* what, std::size_t bytes) {
  position_.Enter(RankPhase::kReduce);
  const WorkHandle confirmation = all_began_ ? nullptr : communicator_->Confirm(deadline_);
  Result<void> done = Await(work, what, bytes);
  if (done.ok() && confirmation) {
    done = AwaitConfirmed(confirmation);
    all_began_ = done.ok();
    if (all_began_) committed_(RankPhase::kCompute);
  }
  position_.Enter(RankPhase::kCompute);
  return done;
}

// Returns an error unless all operations of this step have succeeded on every rank.
Result<void> StepReducer::AwaitConfirmed(const WorkHandle& confirmation) {
  return Await(confirmation, "confirmation", 0);
}

Result<void> StepReducer::Await(const WorkHandle& work, const char* what, std::size_t bytes,
                                int bucket) {
  const auto start = clock_.Now();
  Result<void> done = work->Wait();
  const std::optional<Work::Span> span = work->span();
  // Excludes the time in which a GPU is still computing the data to send.
  waited_ += clock_.Now() - (span ? std::max(start, span->begin) : start);
  if (span) {
    networked_ += span->end - span->begin;
    if (options_.trace != nullptr) {
      options_.trace->AddCollective(what, span->begin, span->end, bucket, bytes);
    }
  }
  if (!done.ok() && !error_) error_ = done.error();
  return done;
}

}  // namespace ringmaster::trainer
