#include "cli/log_session.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "cli/job_pods.h"
#include "cli/json_stream.h"
#include "cli/log_lines.h"
#include "cli/terminal.h"
#include "common/base/clock.h"
#include "common/json/json.h"
#include "operator/api/names.h"
#include "operator/kube/json_access.h"

namespace ringmaster::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t kMostLineBytes = std::size_t{64} << 10;  // longer lines are split
constexpr int64_t kHeldMillis = 500;  // with -f: how long a line waits for older lines
constexpr milliseconds kTick{100};
constexpr milliseconds kRetry{1000};
constexpr milliseconds kAfterTheEnd{15000};  // how long to read lines after the job has ended
constexpr int kMostFailedWatches = 5;        // consecutive failed watches

int64_t NowMillis() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool HasEnded(const json& job) {
  for (const json& condition : kube::GetArray(job, {"status", "conditions"})) {
    const std::string type = kube::GetString(condition, {"type"});
    if ((type == api::kSucceeded || type == api::kFailed) &&
        kube::GetString(condition, {"status"}) == "True") {
      return true;
    }
  }
  return false;
}

class LogSession {
 public:
  LogSession(const Kubectl& kubectl, const LogOptions& options, const json& job)
      : kubectl_(kubectl),
        options_(options),
        uid_(kube::GetString(job, {"metadata", "uid"})),
        namespace_flag_("--namespace=" + kube::GetString(job, {"metadata", "namespace"})),
        job_ended_(HasEnded(job)),
        reaper_(io_),
        ticker_(io_),
        merge_({.held_millis = options.follow ? kHeldMillis : 0},
               [this](const std::string& pod, const LogLine& line) { Print(pod, line); }) {}

  Result<void> Run() {
    if (job_ended_) ended_at_ = NowMillis();
    const Result<json> pods = kubectl_.Get({namespace_flag_, "pods", Selector()});
    if (!pods.ok()) return pods.error();
    for (const PodView& pod : PodsOf(*pods, uid_)) Learn(pod);
    if (error_) return *error_;
    if (!options_.follow && pods_.empty()) return NoLogs();
    if (options_.follow) {
      Watch({"pods", Selector()}, [this](const std::string& type, const json& pod) {
        if (IsOf(pod, uid_)) OnPod(type, pod);
      });
      Watch({kJobs, options_.job},
            [this](const std::string& type, const json& job) { OnJob(type, job); });
    }
    Tick();
    io_.run();
    Forget();
    merge_.Show(NowMillis());
    std::fflush(stdout);
    if (error_) return *error_;
    if (!options_.follow && !any_log_) return NoLogs();
    return {};
  }

 private:
  struct Followed {
    PodView pod{};
    bool gone = false;
    bool complete = false;  // whether the container has ended and its log was read completely
    int64_t complete_restarts = 0;
    int stream = 0;  // number of the Pod's stream in merge_; 0: the log is not being read
    int64_t newest_nanos = 0;
    int64_t resumed_after = 0;  // lines up to this time were already shown
    std::shared_ptr<CapturedProcess> process{};
    std::string unfinished{};
    std::string errors{};
    std::unique_ptr<boost::asio::steady_timer> retry{};
  };

  std::string Selector() const {
    return "--selector=" + std::string(api::kLabelJobUid) + "=" + uid_;
  }

  Error NoLogs() const {
    return {ErrorKind::kNotFound, "no Pod of " + options_.job +
                                      " has a log; \"kubectl trainingjob status " + options_.job +
                                      "\" says why"};
  }

  bool Wanted(const PodView& pod) const {
    if (options_.workers.empty()) return true;
    return !pod.launcher && std::find(options_.workers.begin(), options_.workers.end(),
                                      pod.number) != options_.workers.end();
  }

  void Learn(const PodView& pod) {
    if (!Wanted(pod)) return;
    Followed& followed = pods_[pod.uid];
    followed.pod = pod;
    if (followed.complete && pod.restarts != followed.complete_restarts) followed.complete = false;
    Consider(followed);
  }

  void Consider(Followed& followed) {
    const bool waits = followed.retry != nullptr;
    if (followed.stream != 0 || waits || followed.complete || followed.gone || error_) return;
    if (!followed.pod.started) return;
    const auto reading = static_cast<std::size_t>(std::count_if(
        pods_.begin(), pods_.end(), [](const auto& entry) { return entry.second.stream != 0; }));
    if (reading >= options_.most_requests) {
      return Fail({ErrorKind::kInvalid,
                   options_.job + " has more than " + std::to_string(options_.most_requests) +
                       " Pods with logs, each of which needs its own kubectl; select Pods "
                       "with --worker or raise --max-log-requests"});
    }
    StartReading(followed);
  }

  void StartReading(Followed& followed) {
    Arguments arguments{"logs",        namespace_flag_,           followed.pod.name,
                        "--container", ContainerOf(followed.pod), "--timestamps"};
    if (options_.follow) arguments.emplace_back("--follow");
    if (followed.newest_nanos != 0) {
      arguments.push_back("--since-time=" + FormatTime(Time(std::chrono::seconds(
                                                followed.newest_nanos / 1000000000))));
    } else {
      if (!options_.since.empty()) arguments.push_back("--since=" + options_.since);
      if (options_.tail) arguments.push_back("--tail=" + std::to_string(*options_.tail));
    }
    followed.stream = merge_.Open(followed.pod.name);
    followed.unfinished.clear();
    followed.errors.clear();
    const std::string uid = followed.pod.uid;
    auto started = CapturedProcess::Start(
        reaper_, kubectl_.Spec(arguments),
        {.on_output = [this, uid](bool is_stderr,
                                  std::string_view data) { OnOutput(uid, is_stderr, data); },
         .on_end = [this, uid](ProcessEnd end, const LastLines& /*lines*/) { OnEnd(uid, end); }});
    if (!started.ok()) return Fail(started.error());
    followed.process = *std::move(started);
    followed.resumed_after = followed.newest_nanos;
  }

  void OnOutput(const std::string& uid, bool is_stderr, std::string_view data) {
    Followed& followed = pods_[uid];
    if (is_stderr) {
      if (followed.errors.size() < kMostLineBytes) followed.errors += data;
      return;
    }
    for (const char c : data) {
      if (c != '\n') followed.unfinished += c;
      if (c == '\n' || followed.unfinished.size() >= kMostLineBytes) TakeLine(followed);
    }
    Pump();
  }

  void TakeLine(Followed& followed) {
    LogLine line = ReadLogLine(std::exchange(followed.unfinished, {}), followed.pod.launcher,
                               followed.newest_nanos);
    if (followed.resumed_after != 0 && line.nanos <= followed.resumed_after) return;
    any_log_ = true;
    followed.newest_nanos = std::max(followed.newest_nanos, line.nanos);
    merge_.Add(followed.stream, std::move(line), NowMillis());
  }

  void OnEnd(const std::string& uid, ProcessEnd end) {
    Followed& followed = pods_[uid];
    if (!followed.unfinished.empty()) TakeLine(followed);
    merge_.Close(followed.stream);
    followed.stream = 0;
    followed.process.reset();
    if (!options_.follow) {
      followed.complete = true;
      if (end.exit_code != 0) Note(followed, ErrorOfKubectl(followed.errors, end));
      return Pump();
    }
    const Error failure = ErrorOfKubectl(followed.errors, end);
    const bool denied =
        failure.kind == ErrorKind::kForbidden || failure.kind == ErrorKind::kUnauthorized;
    if (denied && end.exit_code != 0) return Fail(failure);
    // Retry later, when the watch has shown whether the container ended or the connection broke.
    followed.retry = std::make_unique<boost::asio::steady_timer>(io_, kRetry);
    followed.retry->async_wait(
        [this, uid, clean = end.exit_code == 0](boost::system::error_code error) {
          if (error) return;
          Followed& again = pods_[uid];
          again.retry.reset();
          if ((clean && again.pod.has_ended) || job_ended_) {
            again.complete = true;
            again.complete_restarts = again.pod.restarts;
          }
          Consider(again);
          Pump();
        });
    Pump();
  }

  void Note(const Followed& followed, const Error& error) {
    std::fprintf(stderr, "kubectl trainingjob: failed to read the log of %s: %s\n",
                 followed.pod.name.c_str(), error.message.c_str());
  }

  // --- with -f

  using OnEvent = std::function<void(const std::string& type, const json& object)>;

  void Watch(const Arguments& what, OnEvent on_event) {
    Arguments arguments{"get", namespace_flag_};
    arguments.insert(arguments.end(), what.begin(), what.end());
    arguments.insert(arguments.end(), {"--watch", "--output-watch-events", "-o", "json"});
    auto watch = std::make_shared<Watched>(std::move(arguments), std::move(on_event), io_);
    watches_.push_back(watch);
    StartWatch(watch);
  }

  struct Watched {
    Watched(Arguments its_arguments, OnEvent its_on_event, boost::asio::io_context& io)
        : arguments(std::move(its_arguments)), on_event(std::move(its_on_event)), retry(io) {}
    const Arguments arguments;
    const OnEvent on_event;
    boost::asio::steady_timer retry;
    std::shared_ptr<CapturedProcess> process{};
    std::string errors{};
    int failed = 0;
  };

  void StartWatch(const std::shared_ptr<Watched>& watch) {
    auto stream = std::make_shared<JsonStream>([watch](std::string_view text) {
      const Result<json> event = kube::ParseServerJson(text);
      if (!event.ok()) return;
      watch->failed = 0;
      if (const json* object = kube::Find(*event, {"object"})) {
        watch->on_event(kube::GetString(*event, {"type"}), *object);
      }
    });
    watch->errors.clear();
    auto started =
        CapturedProcess::Start(reaper_, kubectl_.Spec(watch->arguments),
                               {.on_output =
                                    [watch, stream](bool is_stderr, std::string_view data) {
                                      if (!is_stderr) return stream->Add(data);
                                      if (watch->errors.size() < kMostLineBytes)
                                        watch->errors += data;
                                    },
                                .on_end =
                                    [this, watch](ProcessEnd end, const LastLines& /*lines*/) {
                                      watch->process.reset();
                                      OnWatchEnd(watch, end);
                                    }});
    if (!started.ok()) return Fail(started.error());
    watch->process = *std::move(started);
  }

  // Restarts the watch: the API server ends each watch after some time.
  void OnWatchEnd(const std::shared_ptr<Watched>& watch, ProcessEnd end) {
    if (finished_) return;
    const Error error = ErrorOfKubectl(watch->errors, end);
    if (error.kind == ErrorKind::kNotFound) return OnJobEnd();
    if (end.exit_code != 0 && ++watch->failed >= kMostFailedWatches) return Fail(error);
    watch->retry.expires_after(kRetry);
    watch->retry.async_wait([this, watch](boost::system::error_code cancelled) {
      if (!cancelled && !finished_) StartWatch(watch);
    });
  }

  void OnPod(const std::string& type, const json& object) {
    const PodView pod = ReadPod(object);
    if (type == "DELETED") {
      const auto found = pods_.find(pod.uid);
      if (found != pods_.end()) found->second.gone = true;
    } else {
      Learn(pod);
    }
  }

  void OnJob(const std::string& type, const json& job) {
    const std::string uid = kube::GetString(job, {"metadata", "uid"});
    if (uid.empty()) return;  // an error of the watch
    // Another job has this name only if this one was deleted.
    if (uid != uid_ || type == "DELETED" || HasEnded(job)) OnJobEnd();
  }

  void OnJobEnd() {
    if (!std::exchange(job_ended_, true)) ended_at_ = NowMillis();
    Pump();
  }

  // --- the end

  void Tick() {
    Pump();
    if (finished_) return;
    ticker_.expires_after(kTick);
    ticker_.async_wait([this](boost::system::error_code error) {
      if (!error) Tick();
    });
  }

  void Pump() {
    merge_.Show(NowMillis());
    std::fflush(stdout);
    for (auto& [uid, followed] : pods_) {
      if (followed.process != nullptr) followed.process->PauseOutput(merge_.Full(followed.stream));
    }
    const bool all_read = std::all_of(pods_.begin(), pods_.end(), [](const auto& entry) {
      const Followed& followed = entry.second;
      return followed.stream == 0 && followed.retry == nullptr;
    });
    const bool late = ended_at_ != 0 && NowMillis() - ended_at_ > kAfterTheEnd.count();
    if (options_.follow ? job_ended_ && (all_read || late) : all_read) Finish();
  }

  void Fail(Error error) {
    if (!error_) error_ = std::move(error);
    Finish();
  }

  void Finish() {
    if (std::exchange(finished_, true)) return;
    for (auto& [uid, followed] : pods_) {
      if (followed.stream != 0) merge_.Close(followed.stream);
    }
    io_.stop();  // the child processes end with this process
  }

  // Releases the handlers of running child processes, because they own the session.
  void Forget() {
    for (auto& [uid, followed] : pods_) {
      if (followed.process != nullptr) followed.process->Forget();
    }
    for (const auto& watch : watches_) {
      if (watch->process != nullptr) watch->process->Forget();
    }
  }

  void Print(const std::string& pod, const LogLine& line) {
    if (options_.rank && line.rank != *options_.rank) return;
    // Lines of our programs, and ranks' lines that only a launcher's log has, show the Pod's name.
    const bool of_rank = line.rank >= 0 && !line.may_repeat;
    const std::string who = of_rank || options_.rank ? "rank " + std::to_string(line.rank) : pod;
    std::string text = options_.timestamps ? line.time + " " : "";
    text += "[" + who + "] " + line.text;
    if (options_.for_terminal) text = Printable(text);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fputc('\n', stdout);
  }

  const Kubectl& kubectl_;
  const LogOptions& options_;
  const std::string uid_;
  const std::string namespace_flag_;
  bool job_ended_;
  bool finished_ = false;
  bool any_log_ = false;
  int64_t ended_at_ = 0;
  std::optional<Error> error_{};
  boost::asio::io_context io_;
  ChildReaper reaper_;
  boost::asio::steady_timer ticker_;
  LogMerge merge_;
  std::map<std::string, Followed> pods_;  // by UID
  std::vector<std::shared_ptr<Watched>> watches_;
};

}  // namespace

Result<void> ShowLogs(const Kubectl& kubectl, const LogOptions& options) {
  const Result<json> job = kubectl.GetJob(options.job);
  if (!job.ok()) return job.error();
  return LogSession(kubectl, options, *job).Run();
}

}  // namespace ringmaster::cli
