#include "operator/job/policy/pod_events.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/backoff.h"
#include "common/base/cut_text.h"
#include "operator/job/policy/image_policy.h"
#include "operator/kube/json_access.h"

namespace ringmaster::job {

using nlohmann::json;

namespace {

constexpr std::size_t kMaxReasonBytes = 64;
constexpr std::size_t kMaxNoteBytes = 512;
constexpr BackoffOptions kAskAgain{.initial = std::chrono::milliseconds(5'000),
                                   .limit = std::chrono::milliseconds(60'000),
                                   .factor = 2.0,
                                   .jitter = 0.0};

// Returns the text as one line without control characters, cut to `most_bytes`.
std::string Line(std::string text, std::size_t most_bytes) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return CutText(std::move(text), most_bytes);
}

// Returns the event's newest time. Times in RFC 3339 and UTC can be compared as text.
std::string TimeOf(const json& event) {
  std::string newest;
  for (const auto& time :
       {kube::GetString(event, {"series", "lastObservedTime"}),
        kube::GetString(event, {"deprecatedLastTimestamp"}), kube::GetString(event, {"eventTime"}),
        kube::GetString(event, {"metadata", "creationTimestamp"})}) {
    newest = std::max(newest, time);
  }
  return newest;
}

// Returns true for the kubelet's events "Error: ErrImagePull" and "Error: ImagePullBackOff". The
// state of the container has the same reason, with the cause.
bool RepeatsState(const json& event) {
  constexpr std::string_view kError = "Error: ";
  const std::string note = kube::GetString(event, {"note"});
  return note.starts_with(kError) && IsImageWait(note.substr(kError.size()));
}

}  // namespace

NextQuestion PodToAskAbout(const Observed& observed, const SlowStart& slow, Clock::Time now) {
  std::vector<PodPtr> pods;
  if (observed.launcher != nullptr) pods.push_back(observed.launcher);
  pods.insert(pods.end(), observed.live.begin(), observed.live.end());
  std::vector<PodPtr> waiting;
  std::optional<Clock::Time> next;
  for (const PodPtr& pod : pods) {
    const auto since = slow.since.find(pod->uid);
    if (since == slow.since.end()) continue;
    waiting.push_back(pod);
    const Clock::Time due = std::max(since->second + kAskAboutStartAfter, slow.ask_again);
    next = std::min(next.value_or(due), due);
  }
  if (!next) return {};
  if (*next > now) {
    return {.ask = std::nullopt, .left = std::chrono::ceil<std::chrono::milliseconds>(*next - now)};
  }
  std::erase_if(waiting, [&](const PodPtr& pod) {
    return slow.since.at(pod->uid) + kAskAboutStartAfter > now;
  });
  // Read the events of the same Pod again if it has a warning; otherwise those of the next Pod.
  auto chosen = std::find_if(waiting.begin(), waiting.end(),
                             [&](const PodPtr& pod) { return pod->uid == slow.asked; });
  if (chosen == waiting.end() || (slow.warning.empty() && ++chosen == waiting.end())) {
    chosen = waiting.begin();
  }
  return {.ask = PodQuestion{.pod = (*chosen)->name, .uid = (*chosen)->uid}, .left = std::nullopt};
}

std::string NewestWarning(const std::vector<json>& events, const std::string& pod_uid) {
  const json* newest = nullptr;
  for (const json& event : events) {
    if (kube::GetString(event, {"regarding", "uid"}) != pod_uid || RepeatsState(event)) continue;
    if (newest == nullptr || TimeOf(*newest) <= TimeOf(event)) newest = &event;
  }
  if (newest == nullptr || kube::GetString(*newest, {"type"}) != "Warning") return {};
  return Line(kube::GetString(*newest, {"reason"}), kMaxReasonBytes) + ": " +
         Line(kube::GetString(*newest, {"note"}), kMaxNoteBytes);
}

EventsRead AfterReading(SlowStart slow, const PodQuestion& question, std::string warning,
                        Clock::Time now) {
  slow.ask_again = now + BackoffDelay(kAskAgain, ++slow.times, 0);
  const bool news = slow.warning != warning || (slow.asked != question.uid && !warning.empty());
  slow.asked = question.uid;
  slow.warning = std::move(warning);
  return {.slow = std::move(slow), .news = news};
}

}  // namespace ringmaster::job
