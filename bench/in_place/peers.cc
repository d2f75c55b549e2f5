#include "bench/in_place/peers.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <stdexcept>
#include <thread>

#include <nlohmann/json.hpp>

#include "bench/any_program/step_log.h"
#include "bench/in_place/torchft_site.h"
#include "worker/bench/harness/figure.h"

namespace ringmaster::in_place {
namespace {

using any_program::Now;
using any_program::Site;
using any_program::Step;

// The cost of one fault. A step whose batch was dropped has `ranks` 0 in the log.
struct Cost {
  double seconds = 0;       // time from the fault to the end of the first new step
  int64_t repeated = 0;     // number of repeated steps
  int dropped = 0;          // number of the survivors' batches that were not used
  int survivors_ended = 0;  // number of survivors that ended; torchft only
};

struct Before {
  std::size_t known = 0;
  double start = 0;      // newest Step::start: number of the quorum (torchft) or time (torchrun)
  int64_t furthest = 0;  // the highest step
};

Before BeforeIn(const std::vector<Step>& steps) {
  Before before{.known = steps.size()};
  for (const Step& step : steps) {
    before.start = std::max(before.start, step.start);
    before.furthest = std::max(before.furthest, step.step);
  }
  return before;
}

class Run {
 public:
  Run(const PeerOptions& options, Site& site, const TorchftSite* torchft, const std::string& log)
      : options_(options), site_(site), torchft_(torchft), log_(log) {}

  std::vector<Cost> Play() {
    site_.Start();
    AwaitWhole();
    std::vector<Cost> costs;
    for (const int worker : options_.victims) {
      std::this_thread::sleep_for(std::chrono::duration<double>(options_.every));
      costs.push_back(Strike(worker));
      const Cost& cost = costs.back();
      std::printf(
          "%-9s worker %d: next new step after %6.2f s, %d repeated, %d batches dropped, "
          "%d survivors ended\n",
          ToString(options_.fault), worker, cost.seconds, static_cast<int>(cost.repeated),
          cost.dropped, cost.survivors_ended);
      std::fflush(stdout);
    }
    return costs;
  }

  // Returns the median time between two consecutive steps while all workers train.
  double StepSeconds() {
    std::vector<double> gaps;
    std::map<int64_t, double> made;  // time of the first report of each step
    for (const Step& step : log_.Read()) {
      if (step.ranks != options_.workers) continue;
      if (const auto last = made.find(step.step - 1); last != made.end()) {
        if (made.emplace(step.step, step.at).second) gaps.push_back(step.at - last->second);
      } else {
        made.emplace(step.step, step.at);
      }
    }
    return bench::Median(gaps);
  }

 private:
  Cost Strike(int worker) {
    const Before before = BeforeIn(log_.Read());
    const int ended = torchft_ == nullptr ? 0 : torchft_->survivors_ended();
    const double struck = Now();
    (void)site_.Strike({.kind = options_.fault, .worker = worker, .rank = 0, .after = {}});
    Cost cost;
    Await("a new step", [&] { return Recovered(before, struck, cost); });
    if (!site_.Heal())
      throw std::runtime_error("processes on the disconnected host are still running");
    AwaitWhole();
    if (torchft_ != nullptr) cost.survivors_ended = torchft_->survivors_ended() - ended;
    return cost;
  }

  bool Recovered(const Before& before, double struck, Cost& cost) {
    const std::vector<Step>& steps = log_.Read();
    cost = Cost{};
    int64_t furthest = before.furthest;
    for (std::size_t i = before.known; i < steps.size(); ++i) {
      const Step& step = steps[i];
      if (step.ranks == 0) {
        ++cost.dropped;
        continue;
      }
      if (step.start > before.start) {
        cost.repeated = std::max(cost.repeated, furthest - step.step + 1);
        if (step.step > furthest) {
          cost.seconds = step.at - struck;
          return true;
        }
      } else {
        furthest = std::max(furthest, step.step);
      }
    }
    return false;
  }

  void AwaitWhole() {
    Await("a step of all workers", [&] {
      const std::vector<Step>& steps = log_.Read();
      return !steps.empty() && steps.back().ranks == options_.workers;
    });
  }

  template <typename Condition>
  void Await(const std::string& what, const Condition& condition) {
    std::string over;
    const bool happened = runtime_test::WaitUntil(std::chrono::seconds(options_.limit), [&] {
      over = site_.Tend();
      return !over.empty() || condition();
    });
    if (!over.empty()) throw std::runtime_error(over);
    if (!happened) {
      throw std::runtime_error(what + " did not complete within " + std::to_string(options_.limit) +
                               " s");
    }
  }

  const PeerOptions& options_;
  Site& site_;
  const TorchftSite* const torchft_;  // site_ as a TorchftSite; nullptr: site_ is another site
  any_program::StepLog log_;
};

any_program::SiteOptions SiteOf(const PeerOptions& options, const std::string& script) {
  any_program::SiteOptions site;
  site.workers = options.workers;
  site.ranks = 1;
  site.folder = options.folder;
  site.variables = {{"PATH", options.folder + "/bin"},
                    {"PYTHONPATH", options.pythonpath},
                    {"PYTHONDONTWRITEBYTECODE", "1"},
                    {"PYTHONWARNINGS", "ignore"},
                    {"CUDA_VISIBLE_DEVICES", ""}};
  site.script = {options.folder + "/" + script, "--checkpoint=" + options.folder + "/peer.pt",
                 "--steps=" + options.folder + "/peer.steps"};
  return site;
}

void Report(const std::vector<Cost>& costs, double step_seconds) {
  std::vector<double> seconds;
  int64_t repeated = 0;
  int dropped = 0;
  int ended = 0;
  for (const Cost& cost : costs) {
    seconds.push_back(cost.seconds);
    repeated += cost.repeated;
    dropped += cost.dropped;
    ended += cost.survivors_ended;
  }
  const nlohmann::ordered_json line{{"faults", costs.size()},
                                    {"median_s", bench::Median(seconds)},
                                    {"worst_s", bench::Percentile(seconds, 1)},
                                    {"step_ms", 1000 * step_seconds},
                                    {"steps_repeated", repeated},
                                    {"batches_dropped", dropped},
                                    {"survivors_ended", ended}};
  std::cout << line.dump() << std::endl;
}

}  // namespace

void StrikePeer(const PeerOptions& options) {
  std::unique_ptr<Site> site;
  const TorchftSite* torchft = nullptr;
  if (options.peer == Peer::kTorchrun) {
    site = any_program::UnderTorchrun(SiteOf(options, "train_ddp.py"));
  } else {
    any_program::SiteOptions of_site = SiteOf(options, "train_torchft.py");
    std::vector<std::string> lighthouse;
    if (options.peer == Peer::kTorchftTuned) {
      lighthouse = {"--join_timeout_ms=100", "--heartbeat_timeout_ms=500", "--quorum_tick_ms=20"};
      of_site.script.insert(of_site.script.end(), {"--timeout=5", "--by-hand"});
    }
    auto made = std::make_unique<TorchftSite>(of_site, lighthouse);
    torchft = made.get();
    site = std::move(made);
  }
  Run run(options, *site, torchft, options.folder + "/peer.steps");
  try {
    const std::vector<Cost> costs = run.Play();
    Report(costs, run.StepSeconds());
  } catch (const std::exception&) {
    std::cerr << site->Log();
    throw;
  }
}

}  // namespace ringmaster::in_place
