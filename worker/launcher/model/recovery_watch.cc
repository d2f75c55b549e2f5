#include "worker/launcher/model/recovery_watch.h"

#include <algorithm>

namespace ringmaster::launcher {
namespace {

int64_t Millis(Clock::Time::duration time) {
  return std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

}  // namespace

void RecoveryWatch::Lost(Time now, const Loss& loss) {
  if (open_ && (loss.orderly || !open_->orderly)) return;
  open_ = loss;
  declared_at_ = now;
}

void RecoveryWatch::Progressed(Time now, const control::Epoch& epoch, int64_t step) {
  if (!open_ || epoch <= open_->epoch) return;
  control::Recovery recovery;
  recovery.epoch = epoch;
  recovery.cause = open_->cause;
  recovery.pod = open_->pod;
  recovery.node = open_->node;
  recovery.detected_millis = Millis(declared_at_ - open_->last_sign);
  recovery.resumed_millis = Millis(now - declared_at_);
  // The new world completed `step`, so it continued from the state after `step` - 1.
  if (open_->started) {
    recovery.from_start = true;
    const bool known = *open_->started != Time{};
    recovery.ran_millis = known ? Millis(declared_at_ - *open_->started) : 0;
  } else {
    recovery.steps_lost = std::max<int64_t>(0, open_->last_step - (step - 1));
  }
  last_ = recovery;
  open_.reset();
}

}  // namespace ringmaster::launcher
