#include "operator/job/controller/question_turns.h"

#include <algorithm>

namespace ringmaster::job {

namespace {

constexpr std::chrono::milliseconds kBetweenQuestions{200};
// The delay of a job whose namespace is already in the queue with another job.
constexpr std::chrono::milliseconds kComeAgain{1'000};
// A job that does not call Take() for this time loses its place: it is gone or no longer waits.
constexpr std::chrono::milliseconds kPlaceKept{2'000};

}  // namespace

std::chrono::milliseconds QuestionTurns::Take(const std::string& ns, const std::string& job_uid,
                                              Clock::Time now) {
  std::erase_if(places_, [&](const auto& place) {
    return now - std::max(place.second.at, place.second.seen) > kPlaceKept;
  });
  auto place = places_.find(ns);
  if (place != places_.end() && place->second.job_uid != job_uid) return kComeAgain;
  if (place == places_.end()) {
    const Clock::Time at = std::max(next_, now);
    next_ = at + kBetweenQuestions;
    place = places_.emplace(ns, Place{.job_uid = job_uid, .at = at, .seen = now}).first;
  }
  place->second.seen = now;
  if (place->second.at > now) {
    return std::chrono::ceil<std::chrono::milliseconds>(place->second.at - now);
  }
  if (busy_) return kBetweenQuestions;
  busy_ = true;
  places_.erase(place);
  return std::chrono::milliseconds(0);
}

}  // namespace ringmaster::job
