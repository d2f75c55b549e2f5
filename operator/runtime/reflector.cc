#include "operator/runtime/reflector.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "common/json/json.h"
#include "operator/kube/json_access.h"
#include "operator/kube/status_error.h"

namespace ringmaster::runtime {
namespace {

using std::chrono::milliseconds;

constexpr char kInitialEventsEnd[] = "k8s.io/initial-events-end";

// An ERROR event contains the Status that would be the body of an error response.
Error ReadErrorEvent(const nlohmann::json& status) {
  const auto code = kube::GetInt32(status, {"code"}).value_or(500);
  return kube::ReadStatusError({.status = code, .body = DumpJson(status)});
}

}  // namespace

Reflector::Reflector(kube::KubeClient& client, const Clock& clock, StoreWriter& store,
                     WatchListSupport& watch_list, ReflectorOptions options,
                     ReflectorObserver* observer)
    : client_(client),
      clock_(clock),
      store_(store),
      watch_list_(watch_list),
      options_(std::move(options)),
      observer_(observer) {
  Moved();
}

Reflector::~Reflector() { Stop(); }

void Reflector::Start() {
  running_ = true;
  thread_ = std::jthread([this](std::stop_token stop) { Work(stop); });
}

void Reflector::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void Reflector::Reconnect() {
  std::stop_source stream(std::nostopstate);
  {
    const MutexLock lock(mutex_);
    stream = stream_;
  }
  if (!stream.stop_possible()) return;
  LogInfo("Restarted a watch", {{"resource", options_.resource.FullName()}});
  stream.request_stop();  // without the mutex, because it calls the client
}

void Reflector::Work(std::stop_token stop) {
  try {
    while (!stop.stop_requested()) {
      const milliseconds delay = Step(stop);
      if (delay.count() == 0) continue;
      MutexLock lock(mutex_);
      wake_.WaitFor(mutex_, stop, delay, [] { return false; });
    }
  } catch (const std::exception& thrown) {
    // This is a bug in Ringmaster. Healthy() becomes false, so the kubelet restarts the process.
    // The other threads continue until then.
    LogError("A watch thread failed",
             {{"resource", options_.resource.FullName()}, {"error", thrown.what()}});
    SetProblem(std::string("the watch thread failed: ") + thrown.what());
  }
  running_ = false;
}

milliseconds Reflector::Step(std::stop_token stop) {
  Moved();
  const State state = state_;
  if (std::holds_alternative<InitialWatch>(state)) return StepInitialWatch(stop);
  if (const auto* paging = std::get_if<Paging>(&state)) return StepPaging(*paging, stop);
  if (const auto* watching = std::get_if<Watching>(&state)) return StepWatching(*watching, stop);
  return StepEmpty();
}

milliseconds Reflector::StepEmpty() {
  store_.DropStaged();
  if (watch_list_.usable) {
    state_ = InitialWatch{};
  } else {
    state_ = Paging{};
  }
  return {};
}

milliseconds Reflector::StepInitialWatch(std::stop_token stop) {
  const auto started = clock_.Now();
  const Result<void> ended = RunWatch({}, true, stop);
  // Once the list is complete, the stream is the watch, so the stream's end is the watch's end.
  if (std::holds_alternative<Watching>(state_)) {
    WatchEnded(clock_.Now() - started);
    return ended.ok() ? milliseconds(0) : Recover(ended.error());
  }
  if (!ended.ok() && ended.error().kind == ErrorKind::kInvalid && events_ == 0) {
    LogInfo("The server does not support WatchList, using paged lists",
            {{"resource", options_.resource.FullName()}, {"answer", ended.error().message}});
    watch_list_.usable = false;
    state_ = Paging{};
    return {};
  }
  state_ = Empty{};
  return Recover(ended.ok()
                     ? Error{ErrorKind::kUnavailable, "the first list ended before it was complete"}
                     : ended.error());
}

milliseconds Reflector::StepPaging(const Paging& paging, std::stop_token stop) {
  Result<kube::ListPage> page = client_.List(options_.resource, options_.ns,
                                             {.label_selector = options_.label_selector,
                                              .limit = paging.limit,
                                              .continue_token = paging.continue_token},
                                             stop);
  if (!page.ok() && page.error().reason == http::kTooLong) return ShortenPage(paging, stop);
  if (!page.ok()) {
    // After an expired page, the list must be restarted from the beginning. For simplicity, restart
    // it after all other errors, too.
    state_ = Empty{};
    return Recover(page.error());
  }
  for (const nlohmann::json& object : page->items) HandleObject("ADDED", object, true);
  if (!page->continue_token.empty()) {
    state_ = Paging{page->continue_token, paging.limit};
    return {};
  }
  Listed(page->resource_version);
  return {};
}

milliseconds Reflector::ShortenPage(const Paging& paging, std::stop_token stop) {
  if (paging.limit > 1) {
    state_ = Paging{paging.continue_token, paging.limit / 2};
    return {};
  }
  // Read only the metadata: the name of the object, and where the list continues.
  const Result<kube::ListPage> page = client_.List(options_.resource, options_.ns,
                                                   {.label_selector = options_.label_selector,
                                                    .limit = 1,
                                                    .continue_token = paging.continue_token,
                                                    .metadata_only = true},
                                                   stop);
  if (!page.ok()) {
    state_ = Empty{};
    return Recover(page.error());
  }
  for (const nlohmann::json& object : page->items) {
    LogWarn("Skipped an object that is too large",
            {{"resource", options_.resource.FullName()},
             {"namespace", kube::GetString(object, {"metadata", "namespace"})},
             {"name", kube::GetString(object, {"metadata", "name"})}});
  }
  if (page->continue_token.empty()) {
    Listed(page->resource_version);
  } else {
    state_ = Paging{page->continue_token};
  }
  return {};
}

milliseconds Reflector::StepWatching(const Watching& watching, std::stop_token stop) {
  const auto started = clock_.Now();
  const Result<void> ended = RunWatch(watching.resource_version, false, stop);
  const auto lasted = clock_.Now() - started;
  WatchEnded(lasted);
  if (!ended.ok()) return Recover(ended.error());
  // The server ends watches regularly. If a watch ends immediately and without events, wait, so
  // that repetitions do not cause a hot loop.
  if (events_ == 0 && lasted < options_.backoff.initial) return NextDelay();
  return {};
}

Result<void> Reflector::RunWatch(const std::string& from_version, bool initial,
                                 const std::stop_token& stop) {
  std::uniform_int_distribution<int64_t> length(options_.shortest_watch.count(),
                                                options_.longest_watch.count());
  const kube::WatchOptions watch{
      .label_selector = options_.label_selector,
      .resource_version = from_version,
      .send_initial_events = initial,
      .timeout = std::chrono::seconds(length(random_)),
      .on_open =
          [this] {
            if (std::holds_alternative<Watching>(state_)) SetProblem({});
          },
      .on_long_line = [this,
                       &initial](std::string_view beginning) { PassOver(beginning, initial); }};
  std::optional<Error> bad_event;
  events_ = 0;
  const auto on_line = [&](std::string_view line) {
    Moved();
    Result<void> handled = HandleLine(line, initial);
    if (!handled.ok()) bad_event = handled.error();
    return handled.ok();
  };
  std::stop_source stream;
  const std::stop_callback with_thread(stop, [&stream] { stream.request_stop(); });
  {
    const MutexLock lock(mutex_);
    stream_ = stream;
  }
  Result<void> ended =
      client_.Watch(options_.resource, options_.ns, watch, on_line, stream.get_token());
  {
    const MutexLock lock(mutex_);
    stream_ = std::stop_source(std::nostopstate);
  }
  if (bad_event) return bad_event->WithContext("watching " + options_.resource.FullName());
  return ended;
}

Result<void> Reflector::HandleLine(std::string_view line, bool& initial) {
  const Result<nlohmann::json> event = kube::ParseServerJson(line);
  if (!event.ok()) return Error{ErrorKind::kExpired, "an event is not JSON"};
  const std::string type = kube::GetString(*event, {"type"});
  const nlohmann::json* object = kube::Find(*event, {"object"});
  if (object == nullptr) return Error{ErrorKind::kExpired, "an event has no object"};
  if (type == "ERROR") return ReadErrorEvent(*object);
  ++events_;
  if (observer_ != nullptr) observer_->OnEvent(options_.resource);
  if (type == "BOOKMARK") return HandleBookmark(*object, initial);
  if (type != "ADDED" && type != "MODIFIED" && type != "DELETED") {
    return Error{ErrorKind::kExpired, "an event has the unknown type \"" + type + "\""};
  }
  HandleObject(type, *object, initial);
  return {};
}

Result<void> Reflector::HandleBookmark(const nlohmann::json& object, bool& initial) {
  const std::string version = kube::GetString(object, {"metadata", "resourceVersion"});
  if (version.empty()) return Error{ErrorKind::kExpired, "a bookmark has no resourceVersion"};
  if (!initial) {
    state_ = Watching{version};
    store_.Seen(version);
  } else if (kube::GetString(object, {"metadata", "annotations", kInitialEventsEnd}) == "true") {
    initial = false;
    Listed(version);
  }
  return {};
}

void Reflector::HandleObject(const std::string& type, const nlohmann::json& object, bool initial) {
  Result<kube::ObjectMeta> meta = kube::ReadObjectMeta(object);
  if (!meta.ok()) {
    LogWarn("Ignored an object without a name", {{"resource", options_.resource.FullName()}});
    return;
  }
  if (!initial) state_ = Watching{meta->resource_version};
  Result<void> stored;
  if (type == "DELETED") {
    initial ? store_.Unstage(*meta) : store_.Delete(*meta);
  } else {
    stored =
        initial ? store_.Stage(object, *std::move(meta)) : store_.Apply(object, *std::move(meta));
  }
  if (!stored.ok()) {
    LogWarn("Skipped an object that failed to decode",
            {{"resource", options_.resource.FullName()}, {"error", stored.error().message}});
  }
}

void Reflector::PassOver(std::string_view beginning, bool initial) {
  Moved();
  ++events_;
  const kube::EventBeginning about = kube::ReadEventBeginning(beginning);
  LogWarn(
      "Skipped an object that is too large",
      {{"resource", options_.resource.FullName()}, {"namespace", about.ns}, {"name", about.name}});
  if (initial || about.name.empty()) return;
  kube::ObjectMeta meta;
  meta.ns = about.ns;
  meta.name = about.name;
  store_.Delete(meta);
}

void Reflector::Listed(const std::string& resource_version) {
  store_.Swap(resource_version);
  state_ = Watching{resource_version};
  SetProblem({});
  if (observer_ != nullptr) observer_->OnListed(options_.resource);
  if (synced_.exchange(true)) return;
  LogInfo("Filled a cache", {{"resource", options_.resource.FullName()}});
  if (options_.on_synced) options_.on_synced();
}

milliseconds Reflector::Recover(const Error& error) {
  if (error.kind == ErrorKind::kCancelled) return {};
  if (observer_ != nullptr) observer_->OnFailure(options_.resource, error.kind);
  switch (error.kind) {
    case ErrorKind::kExpired: {
      LogInfo("Restarted listing",
              {{"resource", options_.resource.FullName()}, {"reason", error.message}});
      state_ = Empty{};
      // Retry immediately the first time. If versions keep expiring, back off.
      if (failures_ == 0) at_once_ = true;
      return NextDelay(options_.blind_backoff);
    }
    case ErrorKind::kForbidden:
      SetProblem(error.message);
      return std::min(options_.forbidden_limit, NextDelay());
    case ErrorKind::kNotFound:
      SetProblem(error.message + "; is the custom resource definition installed?");
      return NextDelay();
    case ErrorKind::kThrottled:
      return std::max(error.retry_after, NextDelay());
    case ErrorKind::kInvalid:
      state_ = Empty{};
      break;
    case ErrorKind::kUnavailable:
    case ErrorKind::kTimeout:
      SetProblem(error.message);
      return std::max(error.retry_after, NextDelay(options_.blind_backoff));
    default:
      break;
  }
  SetProblem(error.message);
  return NextDelay();
}

milliseconds Reflector::NextDelay(const BackoffOptions& backoff) {
  ++failures_;
  if (std::exchange(at_once_, false)) return milliseconds(0);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  return BackoffDelay(backoff, failures_, uniform(random_));
}

void Reflector::WatchEnded(std::chrono::nanoseconds lasted) {
  if (lasted < options_.healthy_after) return;
  failures_ = 0;
  at_once_ = true;
}

std::string Reflector::Problem() const {
  const MutexLock lock(mutex_);
  return problem_;
}

void Reflector::SetProblem(const std::string& problem) {
  {
    const MutexLock lock(mutex_);
    if (problem_ == problem) return;
    problem_ = problem;
  }
  if (problem.empty()) {
    LogInfo("A watch recovered", {{"resource", options_.resource.FullName()}});
    if (options_.on_recovered) options_.on_recovered();
  } else {
    LogWarn("A watch failed, retrying",
            {{"resource", options_.resource.FullName()}, {"error", problem}});
  }
}

bool Reflector::Healthy(milliseconds limit) const {
  const Clock::Time moved{Clock::Time::duration(moved_at_.load())};
  return running_ && clock_.Now() - moved < limit;
}

}  // namespace ringmaster::runtime
