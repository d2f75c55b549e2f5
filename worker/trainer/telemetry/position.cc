#include "worker/trainer/telemetry/position.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/trainer/telemetry/kill_sign.h"
#include "worker/trainer/telemetry/stack_signal.h"

namespace ringmaster::trainer {

Position::~Position() {
  if (page_ != nullptr) munmap(page_, sizeof(*page_));
}

Result<void> Position::Open(const std::string& path) {
  const auto fail = [&] {
    return Error{ErrorKind::kUnavailable,
                 "cannot report this rank's position in " + path + ": " + std::strerror(errno)};
  };
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return fail();
  void* const memory =
      mmap(nullptr, sizeof(control::PositionPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    const Error failed = fail();
    close(file);
    return failed;
  }
  page_ = static_cast<control::PositionPage*>(memory);
  WriteStacksTo(file);
  SignOfKillIn(file);
  Write();
  return {};
}

void Position::Enter(control::RankPhase phase, int bucket) {
  if (observer_) observer_(phase);
  if (page_ == nullptr) return;
  now_.phase = phase;
  now_.bucket = bucket;
  now_.moved_nanos = control::MonotonicNanos();
  Write();
}

void Position::EnterWorld(const control::Epoch& epoch) {
  now_.epoch = epoch;
  now_.applied_nanos = 0;
  WaitsFor(-1);
  ComesTo(control::ConnectStage::kBegin);
  Counts({});
  Enter(control::RankPhase::kConnect);
}

void Position::SetStep(int64_t steps) { now_.step = steps; }

void Position::Applied(int64_t steps, std::chrono::nanoseconds took, std::chrono::nanoseconds own) {
  if (page_ == nullptr) return;
  const auto micros = [](std::chrono::nanoseconds time) {
    return std::max<int64_t>(1,
                             std::chrono::duration_cast<std::chrono::microseconds>(time).count());
  };
  now_.step = steps;
  now_.step_micros = micros(took);
  now_.own_micros = micros(own);
  now_.applied_nanos = control::MonotonicNanos();
  Write();
}

void Position::WaitsFor(int peer) {
  if (page_ != nullptr) page_->peer.store(peer + 1, std::memory_order_relaxed);
}

void Position::ComesTo(control::ConnectStage stage) {
  if (page_ == nullptr) return;
  page_->connect_stage.store(static_cast<int64_t>(stage), std::memory_order_relaxed);
}

void Position::Counts(const control::CollectiveCounts& counts) {
  if (page_ == nullptr) return;
  const auto words = control::EncodeCounts(counts);
  for (std::size_t i = 0; i < words.size(); ++i) {
    page_->collectives[i].store(words[i], std::memory_order_relaxed);
  }
}

void Position::Write() {
  const auto words = control::EncodePosition(now_);
  for (std::size_t i = 0; i < words.size(); ++i) {
    page_->position[i].store(words[i], std::memory_order_relaxed);
  }
}

}  // namespace ringmaster::trainer
