#include "worker/agent/rank_position.h"

namespace ringmaster::agent {
namespace {

// Milliseconds from a moment of the page's clock; a rank may claim any.
std::int64_t MillisSince(std::int64_t then, std::int64_t now) {
  return then >= now ? 0 : (now - then) / 1'000'000;
}

}  // namespace

control::RankPosition PositionOf(const Slots::Standing& standing, const RankPage::Reading& reading,
                                 std::int64_t now) {
  const control::PagePosition& said = reading.position;
  return {.rank = standing.rank,
          .slot = standing.slot,
          .entered = said.epoch == standing.epoch,
          .stopped = false,
          .step = said.step,
          .bucket = said.bucket,
          .phase = said.phase,
          .peer = reading.peer,
          .still_millis = MillisSince(said.moved_nanos, now),
          .step_micros = said.step_micros,
          .own_micros = said.own_micros,
          .applied_millis = said.applied_nanos == 0 ? -1 : MillisSince(said.applied_nanos, now)};
}

}  // namespace ringmaster::agent
