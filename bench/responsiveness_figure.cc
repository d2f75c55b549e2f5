// Figure B2: while a job of 1,000 workers is created, bursts of small jobs arrive. A proxy between
// operator and API server measures the time from the moment when it passes a small job's event to
// the operator until the POST of the job's first Pod arrives, and until that POST is answered. The
// reference is a bare client in the same run: it watches objects and POSTs one Pod for each. The
// client has the same load, in separate bursts, and the proxy measures at the same two points.

#include <atomic>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include <CLI/CLI.hpp>

#include "bench/creation.h"
#include "common/base/mutex.h"
#include "worker/bench/harness/figure.h"

namespace ringmaster::bench {
namespace {

using nlohmann::json;
using Time = std::chrono::steady_clock::time_point;

constexpr int kBurst = 10;
constexpr std::chrono::milliseconds kPause(500);

struct Sample {
  double sent = 0;  // milliseconds since the event
  double created = 0;
};

// The times at which the ADDED events of watched objects passed the proxy, by object name.
class EventTimes {
 public:
  void Note(const testing::ProxiedRequest& watch, const std::string& line) {
    const Time now = std::chrono::steady_clock::now();
    const bool watched = watch.target.find("/trainingjobs") != std::string::npos ||
                         watch.target.find("/configmaps") != std::string::npos;
    if (!watched || line.find(R"("ADDED")") == std::string::npos) return;
    const std::string name =
        testing::TextAt(json::parse(line, nullptr, false), "/object/metadata/name");
    const MutexLock lock(mutex_);
    times_.emplace(name, now);
  }
  std::optional<Time> Of(const std::string& name) {
    const MutexLock lock(mutex_);
    const auto it = times_.find(name);
    return it == times_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  Mutex mutex_;
  std::map<std::string, Time> times_ RINGMASTER_GUARDED_BY(mutex_);
};

// The bare client: watches objects and POSTs one Pod per event, on a separate thread.
class BareChain {
 public:
  explicit BareChain(CreationBench& bench)
      : thread_([&bench](std::stop_token stop) {
          std::vector<std::jthread> posts;
          const std::string path =
              std::string("/api/v1/namespaces/") + CreationBench::kBareNs + "/configmaps";
          const std::string version = testing::TextAt(bench.admin().Get(path + "?limit=1").body,
                                                      "/metadata/resourceVersion");
          bench.through_proxy().Watch(
              path + "?watch=true&resourceVersion=" + version, stop, [&](const json& event) {
                const std::string name = testing::TextAt(event, "/object/metadata/name");
                if (testing::TextAt(event, "/type") != "ADDED" || !name.starts_with("bare-"))
                  return true;
                posts.emplace_back([&bench, name] {
                  const std::string ns = CreationBench::kBareNs;
                  bench.through_proxy().Send("POST", bench.PodsPath(ns) + bench.pod_query(),
                                             bench.Pod(ns, name + "-worker-0").dump());
                });
                return true;
              });
        }) {}

 private:
  std::jthread thread_;
};

class Responsiveness {
 public:
  Responsiveness(CreationBench& bench, bool trace) : bench_(bench), trace_(trace) {
    bench_.proxy().SetOnEvent(
        [this](const auto& watch, const std::string& line) { events_.Note(watch, line); });
  }
  ~Responsiveness() { bench_.proxy().SetOnEvent(nullptr); }

  // Creates the large job once, and bursts of small objects until all Pods of the large job exist.
  Result<void> Round(int pods) {
    bench_.proxy().Forget();
    std::optional<Result<Creation>> took;
    {
      const BareChain chain(bench_);
      std::jthread big([&] { took = bench_.OperatorCreates(pods); });
      for (bool small_jobs = true; !took.has_value(); small_jobs = !small_jobs) {
        InParallel(kBurst, kBurst, [&](int) { small_jobs ? MakeJob() : MakeMap(); });
        std::this_thread::sleep_for(kPause);
      }
      big.join();
      testing::WaitUntil([&] { return Collect() == made_; }, std::chrono::seconds(60));
    }
    if (!took->ok()) return took->error();
    std::cout << "round: " << pods << " Pods in " << (*took)->took.count() << " s; so far "
              << ours.size() << " small jobs and " << bare.size() << " bare chains" << std::endl;
    if (trace_) TraceSlowest();
    for (const char* ns :
         {CreationBench::kOperatorNs, CreationBench::kOtherNs, CreationBench::kBareNs}) {
      if (auto cleared = bench_.Clear(ns); !cleared.ok()) return cleared;
    }
    return {};
  }

  std::vector<Sample> ours;
  std::vector<Sample> bare;

 private:
  void MakeJob() {
    const std::string name = "small-" + std::to_string(++made_);
    const std::string ns = CreationBench::kOtherNs;
    bench_.admin().Post(bench_.JobsPath(ns), bench_.Job(ns, name, 1));
  }
  void MakeMap() {
    const std::string name = "bare-" + std::to_string(++made_);
    bench_.admin().Post(std::string("/api/v1/namespaces/") + CreationBench::kBareNs + "/configmaps",
                        {{"metadata", {{"name", name}}}});
  }

  // Adds the samples that are complete. Returns the number of objects with a sample in all rounds.
  int Collect() {
    for (const testing::ProxiedRequest& write : bench_.proxy().Writes()) {
      const bool small = write.Path() == bench_.PodsPath(CreationBench::kOtherNs);
      const bool chain = write.Path() == bench_.PodsPath(CreationBench::kBareNs);
      if (write.method != "POST" || write.status != 201 || (!small && !chain)) continue;
      const std::string pod = testing::TextAt(json::parse(write.body), "/metadata/name");
      const std::string name = pod.substr(0, pod.find('-', pod.find('-') + 1));
      const auto event = events_.Of(name);
      if (!event || !done_.insert(name).second) continue;
      const auto millis = [&](Time time) { return Seconds(time - *event).count() * 1000; };
      const Sample sample{millis(write.received), millis(write.answered)};
      (small ? ours : bare).push_back(sample);
      if (small && sample.sent > slowest_.second) slowest_ = {name, sample.sent};
    }
    return static_cast<int>(done_.size());
  }

  // Prints the requests for the job that waited longest, with milliseconds since the job's event.
  void TraceSlowest() {
    const auto event = events_.Of(slowest_.first);
    if (!event) return;
    std::cout << "slowest: " << slowest_.first << std::endl;
    for (const testing::ProxiedRequest& write : bench_.proxy().Writes()) {
      if (write.target.find(slowest_.first) == std::string::npos &&
          write.body.find('"' + slowest_.first) == std::string::npos) {
        continue;
      }
      std::cout << "  " << Seconds(write.received - *event).count() * 1000 << " … "
                << Seconds(write.answered - *event).count() * 1000 << " ms: " << write.method << ' '
                << write.Path() << ' ' << write.status << std::endl;
    }
    slowest_ = {};
  }

  CreationBench& bench_;
  const bool trace_;
  std::pair<std::string, double> slowest_;
  EventTimes events_;
  std::atomic<int> made_{0};
  std::set<std::string>
      done_;  // objects whose first Pod was created, so that later Pods are not counted
};

std::vector<double> Values(const std::vector<Sample>& samples, double Sample::*member) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.*member);
  return values;
}

Result<void> Measure(const CreationOptions& options, int pods, std::size_t jobs, bool trace) {
  auto bench = CreationBench::Start(options);
  if (!bench.ok()) return bench.error();
  CreationBench& b = **bench;
  if (auto captured = b.CapturePodRequest(); !captured.ok()) return captured;
  Responsiveness figure(b, trace);
  // The first round is not counted, because both sides open their connections in it.
  if (auto round = figure.Round(pods); !round.ok()) return round;
  figure.ours.clear();
  figure.bare.clear();
  while (figure.ours.size() < jobs || figure.bare.size() < jobs) {
    if (auto round = figure.Round(pods); !round.ok()) return round;
  }
  const auto sent = Values(figure.ours, &Sample::sent);
  const auto created = Values(figure.ours, &Sample::created);
  const auto bare = Values(figure.bare, &Sample::created);
  const double sent_p99 = Percentile(sent, 0.99);
  const double ratio_p50 = Median(created) / Median(bare);
  const double ratio_p99 = Percentile(created, 0.99) / Percentile(bare, 0.99);
  PrintFigure({.name = "B2",
               .value = sent_p99,
               .unit = "ms from event to the first Pod's POST, p99",
               .reference = Percentile(Values(figure.bare, &Sample::sent), 0.99),
               .goal = "<= 20 ms, and first Pod created <= 1.5x the bare chain (p50 and p99)",
               .holds = sent_p99 <= 20 && ratio_p50 <= 1.5 && ratio_p99 <= 1.5},
              {{"sent_p50_ms", Median(sent)},
               {"created_p50_ms", Median(created)},
               {"created_p99_ms", Percentile(created, 0.99)},
               {"bare_p50_ms", Median(bare)},
               {"bare_p99_ms", Percentile(bare, 0.99)},
               {"ratio_p50", ratio_p50},
               {"ratio_p99", ratio_p99},
               {"jobs", figure.ours.size()}});
  return {};
}

}  // namespace
}  // namespace ringmaster::bench

int main(int argc, char** argv) {
  CLI::App app("Figure B2: latency of small jobs during creation of a large one");
  ringmaster::bench::CreationOptions options;
  int pods = 1000;
  std::size_t jobs = 200;
  bool trace = false;
  app.add_option("--kubeconfig", options.kubeconfig, "kubeconfig of a cluster administrator")
      ->required();
  app.add_option("--operator", options.program, "path of the operator binary")->required();
  app.add_option("--operator-flag", options.flags,
                 "additional operator flags, to compare settings");
  app.add_option("--pods", pods, "number of worker Pods of the large job");
  app.add_option("--jobs", jobs, "number of small jobs");
  app.add_flag("--trace", trace, "print the requests for the slowest small job of each round");
  CLI11_PARSE(app, argc, argv);
  const auto measured = ringmaster::bench::Measure(options, pods, jobs, trace);
  if (measured.ok()) return 0;
  std::cerr << measured.error().message << std::endl;
  return 1;
}
