#include "operator/runtime/event_recorder.h"

#include <cstdio>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/cut_text.h"
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

// Events that differ in nothing of this are repetitions.
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
  char hex[17];
  const auto nanos =
      std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(nanos));
  return event.regarding.name + "." + hex;
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
  const std::lock_guard lock(mutex_);
  if (queue_.size() >= options_.max_queued) {
    ++dropped_;
    return;
  }
  queue_.push_back({std::move(event), clock_.WallNow()});
  changed_.notify_all();
}

void EventRecorder::Flush(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return queue_.empty() && !sending_; });
}

bool EventRecorder::SendOne() {
  Queued queued;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) return false;
    queued = std::move(queue_.front());
    queue_.pop_front();
    sending_ = true;
  }
  Send(queued);
  const std::lock_guard lock(mutex_);
  sending_ = false;
  changed_.notify_all();
  return true;
}

void EventRecorder::Work(std::stop_token stop) {
  while (!stop.stop_requested()) {
    if (SendOne()) continue;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [this] { return !queue_.empty(); });
  }
}

void EventRecorder::Send(const Queued& queued) {
  ForgetOld();
  const std::string identity = IdentityOf(queued.event);
  const auto known = sent_.find(identity);
  if (known != sent_.end() && SendRepetition(queued, known->second)) return;
  std::string name = SendFirst(queued);
  if (!name.empty()) sent_[identity] = {std::move(name), 1, clock_.Now()};
}

// False when the first event is gone (events live for an hour): then it is a first one again.
bool EventRecorder::SendRepetition(const Queued& queued, Sent& sent) {
  const nlohmann::json patch = {
      {"series", {{"count", sent.count + 1}, {"lastObservedTime", FormatMicroTime(queued.at)}}}};
  const auto patched = client_.Patch(kube::kEvents, NamespaceOf(queued.event), sent.name, patch);
  if (!patched.ok() && patched.error().kind == ErrorKind::kNotFound) return false;
  if (!patched.ok()) {
    ++dropped_;
    LogDebug("An event could not be counted", {{"error", patched.error().message}});
    return true;
  }
  ++sent.count;
  sent.last = clock_.Now();
  return true;
}

std::string EventRecorder::SendFirst(const Queued& queued) {
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
  // AlreadyExists: the library sent the request twice, and the first one counted.
  if (created.ok() || created.error().kind == ErrorKind::kAlreadyExists) return name;
  ++dropped_;
  LogDebug("An event could not be sent", {{"error", created.error().message}});
  return {};
}

void EventRecorder::ForgetOld() {
  const auto oldest = clock_.Now() - options_.series_window;
  std::erase_if(sent_, [&](const auto& entry) { return entry.second.last < oldest; });
  if (sent_.size() > kMaxRemembered) sent_.clear();
}

}  // namespace ringmaster::runtime
