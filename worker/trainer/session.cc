#include "worker/trainer/session.h"

#include <ATen/ATen.h>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

// FNV-1a over 8 bytes at a time: equality is all that is asked of it.
uint64_t Checksum(std::span<const float> values, uint64_t start) {
  uint64_t hash = start ^ 0xcbf29ce484222325ULL;
  for (const float value : values) {
    uint32_t bits = 0;
    static_assert(sizeof(bits) == sizeof(value));
    std::memcpy(&bits, &value, sizeof(bits));
    hash = (hash ^ bits) * 0x100000001b3ULL;
  }
  return hash;
}

// What every rank tells the others when a world forms.
struct Statement {
  uint64_t fingerprint = 0;
  int64_t committed = 0;
  uint64_t parameters = 0;

  friend bool operator==(const Statement&, const Statement&) = default;
};

Error Disagreement(int rank, const Statement& theirs, const Statement& ours) {
  const std::string other = "rank " + std::to_string(rank);
  if (theirs.fingerprint != ours.fingerprint) {
    return {ErrorKind::kInvalid,
            other +
                " has other flags or other data than this rank; run the same command with the "
                "same data on every rank"};
  }
  return {ErrorKind::kInvalid, other + " has other parameters than this rank after " +
                                   std::to_string(ours.committed) + " steps (it has committed " +
                                   std::to_string(theirs.committed) + ")"};
}

}  // namespace

Session::Session(MembershipSource& membership, CommunicatorFactory make_communicator,
                 Buckets& buckets, const Clock& clock, const SessionOptions& options)
    : membership_(membership),
      make_communicator_(std::move(make_communicator)),
      buckets_(buckets),
      clock_(clock),
      options_(options) {}

Session::~Session() = default;

Result<void> Session::Join() {
  Result<World> world = membership_.AwaitWorld();
  if (!world.ok()) return world.error().WithContext("waiting for the other ranks");
  world_ = *std::move(world);
  const Deadline deadline = StepDeadline();
  communicator_ = make_communicator_(world_, membership_.store(), deadline);
  const Result<void> agreed = CheckAgreement(deadline);
  if (!agreed.ok()) return Broken(agreed.error());
  LogInfo("Joined the world", {{"rank", world_.rank}, {"size", world_.size}});
  return {};
}

Result<void> Session::CheckAgreement(Deadline deadline) {
  const at::Tensor& parameters = buckets_.flat_parameters();
  const std::span<const float> values(parameters.data_ptr<float>(),
                                      static_cast<std::size_t>(parameters.numel()));
  const Statement mine{.fingerprint = options_.fingerprint,
                       .committed = committed_,
                       .parameters = Checksum(values, 0)};
  std::vector<Statement> all(static_cast<std::size_t>(world_.size));
  const WorkHandle work = communicator_->AllGather(
      std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)), deadline);
  if (Result<void> gathered = work->Wait(); !gathered.ok()) {
    communicator_.reset();  // before the memory it may still write to
    return gathered.error();
  }
  for (int rank = 0; rank < world_.size; ++rank) {
    const Statement& theirs = all[static_cast<std::size_t>(rank)];
    if (theirs != mine) return Disagreement(rank, theirs, mine);
  }
  return {};
}

void Session::Begin() {
  works_.clear();
  const Deadline deadline = StepDeadline();
  buckets_.Arm([this, deadline](int index) {
    works_.push_back(communicator_->AllReduce(buckets_.Bucket(index), deadline));
  });
}

void Session::SetLoss(double sum) { buckets_.scalars()[0] = static_cast<float>(sum); }

Result<StepResult> Session::Reduce() {
  buckets_.Flush();
  const auto start = clock_.Now();
  for (const WorkHandle& work : works_) {
    const Result<void> reduced = work->Wait();
    if (!reduced.ok())
      return Broken(reduced.error().WithContext("reducing step " + std::to_string(committed_ + 1)));
  }
  StepResult result{.waited = clock_.Now() - start};
  const auto batch = static_cast<double>(options_.global_batch);
  buckets_.flat_gradients().mul_(1.0 / batch);
  result.loss = buckets_.scalars()[0] / batch;
  return result;
}

Result<void> Session::Sum(std::span<float> values) {
  const Result<void> summed = communicator_->AllReduce(values, StepDeadline())->Wait();
  if (!summed.ok()) return Broken(summed.error());
  return {};
}

void Session::Report(const control::Progress& progress) {
  if (world_.rank == 0) membership_.Report(progress);
}

Result<void> Session::Finish(const control::Progress& progress) {
  return membership_.Finish(progress);
}

// The world is over for this rank: whoever decides about it gets the time to.
Error Session::Broken(const Error& error) {
  if (communicator_ != nullptr) communicator_->Abort(error.message);
  communicator_.reset();
  if (error.kind != ErrorKind::kInvalid) membership_.Broken(error.message);
  return error;
}

}  // namespace ringmaster::trainer
