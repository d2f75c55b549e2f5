#include "operator/runtime/event_recorder.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/cut_text.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "operator/kube/resource.h"

namespace ringmaster::runtime {
namespace {

constexpr std::size_t kMaxNoteBytes = 1024;
constexpr std::size_t kMaxRemembered = 4096;

nlohmann::json ToJson(const ObjectReference& reference) {
  nlohmann::json json = {
      {"apiVersion", reference.api_version}, {"kind", reference.kind}, {"name", reference.name}};
  if (!reference.ns.empty()) json["namespace"] = reference.ns;
  if (!reference.uid.empty()) json["uid"] = reference.uid;
  return json;
}

std::string NamespaceOf(const Event& event) {
  return event.regarding.ns.empty() ? "default" : event.regarding.ns;
}

// Returns a key of the event. Events with equal keys are repetitions of each other.
std::string IdentityOf(const Event& event) {
  std::string identity = NamespaceOf(event);
  for (const std::string& part : {event.regarding.kind, event.regarding.name, event.regarding.uid,
                                  event.reason, event.action, event.note}) {
    identity += '\0';
    identity += part;
  }
  return identity + (event.type == EventType::kWarning ? 'W' : 'N');
}

std::string EventName(const Event& event, Clock::WallTime at) {
  const auto nanos =
      std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
  return event.regarding.name + "." + HexOf(static_cast<uint64_t>(nanos));
}

}  // namespace

EventRecorder::EventRecorder(kube::KubeClient& client, const Clock& clock,
                             EventRecorderOptions options)
    : client_(client), clock_(clock), options_(std::move(options)) {}

EventRecorder::~EventRecorder() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
}

void EventRecorder::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Work(stop); });
}

void EventRecorder::Record(Event event) {
  event.note = CutText(std::move(event.note), kMaxNoteBytes);
  const Clock::Time now = clock_.Now();
  const MutexLock lock(mutex_);
  Push({.event = std::move(event), .at = clock_.WallNow(), .recorded_at = now, .due = now});
}

void EventRecorder::Push(Queued queued) {
  if (queue_.size() >= options_.max_queued) {
    // Events of a namespace that refuses all events must not displace those of other namespaces.
    auto victim = std::find_if(queue_.begin(), queue_.end(),
                               [](const Queued& other) { return other.refusals > 0; });
    if (victim == queue_.end()) victim = queue_.begin();
    Drop(*victim, "the queue is full");
    queue_.erase(victim);
  }
  queue_.push_back(std::move(queued));
  changed_.NotifyAll();
}

void EventRecorder::Drop(const Queued& queued, const std::string& why) {
  ++dropped_;
  if (options_.on_dropped) options_.on_dropped();
  LogDebug(
      "Dropped an event",
      {{"object", queued.event.regarding.name}, {"reason", queued.event.reason}, {"error", why}});
}

void EventRecorder::Flush(std::chrono::milliseconds limit) {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, limit, [this]() RINGMASTER_REQUIRES(mutex_) {
    return !sending_ && std::all_of(queue_.begin(), queue_.end(),
                                    [](const Queued& queued) { return queued.refusals > 0; });
  });
}

std::deque<EventRecorder::Queued>::iterator EventRecorder::NextDue(Clock::Time now) {
  if (now < paused_until_) return queue_.end();
  return std::find_if(queue_.begin(), queue_.end(),
                      [&](const Queued& queued) { return queued.due <= now; });
}

std::optional<Clock::Time> EventRecorder::FirstDue() const {
  const auto first = std::min_element(
      queue_.begin(), queue_.end(), [](const Queued& a, const Queued& b) { return a.due < b.due; });
  if (first == queue_.end()) return std::nullopt;
  return std::max(first->due, paused_until_);
}

bool EventRecorder::SendOne() {
  Queued queued;
  {
    const MutexLock lock(mutex_);
    const auto next = NextDue(clock_.Now());
    if (next == queue_.end()) return false;
    queued = std::move(*next);
    queue_.erase(next);
    sending_ = true;
  }
  const Result<void> sent = Send(queued);
  const MutexLock lock(mutex_);
  sending_ = false;
  if (!sent.ok()) Refused(std::move(queued), sent.error());
  changed_.NotifyAll();
  return true;
}

void EventRecorder::Refused(Queued queued, const Error& error) {
  const Clock::Time now = clock_.Now();
  const bool momentary = error.kind == ErrorKind::kUnavailable ||
                         error.kind == ErrorKind::kTimeout || error.kind == ErrorKind::kThrottled;
  if (!momentary || now - queued.recorded_at >= options_.keep_trying) {
    return Drop(queued, error.message);
  }
  if (error.kind == ErrorKind::kThrottled) {
    paused_until_ = std::max(paused_until_, now + error.retry_after);
  }
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  queued.due = now + BackoffDelay(options_.backoff, ++queued.refusals, uniform(random_));
  Push(std::move(queued));
}

void EventRecorder::Work(std::stop_token stop) {
  while (!stop.stop_requested()) {
    if (SendOne()) continue;
    MutexLock lock(mutex_);
    const std::optional<Clock::Time> due = FirstDue();
    const auto sooner = [&]() RINGMASTER_REQUIRES(mutex_) { return FirstDue() != due; };
    if (due) {
      changed_.WaitFor(mutex_, stop, *due - clock_.Now(), sooner);
    } else {
      changed_.Wait(mutex_, stop, sooner);
    }
  }
}

Result<void> EventRecorder::Send(const Queued& queued) {
  ForgetOld();
  const auto known = sent_.find(IdentityOf(queued.event));
  if (known == sent_.end()) return SendFirst(queued);
  const Result<void> counted = SendRepetition(queued, known->second);
  // The API server deletes events after an hour. A later repetition is a new event.
  const bool gone = !counted.ok() && counted.error().kind == ErrorKind::kNotFound;
  return gone ? SendFirst(queued) : counted;
}

Result<void> EventRecorder::SendRepetition(const Queued& queued, Sent& sent) {
  const nlohmann::json patch = {
      {"series", {{"count", sent.count + 1}, {"lastObservedTime", FormatMicroTime(queued.at)}}}};
  const auto patched = client_.Patch(kube::kEvents, NamespaceOf(queued.event), sent.name, patch);
  if (!patched.ok()) return patched.error();
  ++sent.count;
  sent.last = clock_.Now();
  return {};
}

Result<void> EventRecorder::SendFirst(const Queued& queued) {
  const Event& event = queued.event;
  const std::string ns = NamespaceOf(event);
  const std::string name = EventName(event, queued.at);
  nlohmann::json body = {{"apiVersion", kube::kEvents.ApiVersion()},
                         {"kind", kube::kEvents.kind},
                         {"metadata", {{"namespace", ns}, {"name", name}}},
                         {"eventTime", FormatMicroTime(queued.at)},
                         {"type", event.type == EventType::kWarning ? "Warning" : "Normal"},
                         {"reason", event.reason},
                         {"action", event.action},
                         {"note", event.note},
                         {"reportingController", options_.reporting_controller},
                         {"reportingInstance", options_.reporting_instance},
                         {"regarding", ToJson(event.regarding)}};
  if (event.related) body["related"] = ToJson(*event.related);
  const auto created = client_.Create(kube::kEvents, ns, body);
  // AlreadyExists: an earlier attempt succeeded, but its answer was lost.
  if (!created.ok() && created.error().kind != ErrorKind::kAlreadyExists) return created.error();
  sent_[IdentityOf(event)] = {name, 1, clock_.Now()};
  return {};
}

void EventRecorder::ForgetOld() {
  const auto oldest = clock_.Now() - options_.series_window;
  std::erase_if(sent_, [&](const auto& entry) { return entry.second.last < oldest; });
  if (sent_.size() > kMaxRemembered) sent_.clear();
}

}  // namespace ringmaster::runtime
