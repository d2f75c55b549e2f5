#pragma once

// Makes answers and verdicts of a malicious launcher. A seed selects an extreme or malformed value
// for each field. Used by unit and integration tests; header only.

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/control/launcher_api.h"
#include "common/control/verdict.h"

namespace ringmaster::testing {

class HostileLauncher {
 public:
  // Lists have fewer than `list_limit` items.
  explicit HostileLauncher(unsigned seed, int list_limit = 20)
      : random_(seed), list_limit_(list_limit) {}

  control::LauncherStatus Answer() {
    control::LauncherStatus status;
    status.term = Number();
    status.epoch = AnEpoch();
    status.phase = static_cast<control::LauncherPhase>(Below(9));
    status.ordered = Int();
    status.world_size = Int();
    for (int i = Below(4); i > 0; --i) {
      control::WorkerReport& worker = status.workers.emplace_back();
      worker.pod_uid = Below(2) == 0 ? "uid-worker-" + std::to_string(i) : Text();
      worker.ready = Below(2) == 0;
      worker.member = Below(2) == 0;
      for (int j = Below(list_limit_); j > 0; --j) worker.faults.push_back({Text(), Text()});
    }
    if (Below(2) == 0) status.progress = AProgress();
    if (Below(2) == 0) {
      status.last_recovery = control::Recovery{.epoch = AnEpoch(),
                                               .cause = Text(),
                                               .pod = Text(),
                                               .node = Text(),
                                               .detected_millis = Number(),
                                               .resumed_millis = Number(),
                                               .steps_lost = Number()};
    }
    status.pause_reason = Text();
    if (Below(2) == 0) {
      status.checkpoint = ACheckpoint();
    }
    for (int i = Below(list_limit_); i > 0; --i)
      status.unprotected.push_back({Text(), Text(), Text()});
    for (int i = Below(list_limit_); i > 0; --i) status.failures.push_back(AnExit());
    status.message = Text();
    if (Below(2) == 0) status.beginning = control::Beginning{.step = Number(), .message = Text()};
    for (int i = Below(list_limit_); i > 0; --i) {
      status.stragglers.push_back({.pod_uid = Text(),
                                   .pod = Text(),
                                   .node = Text(),
                                   .rank = Int(),
                                   .step_millis = Real(),
                                   .median_millis = Real(),
                                   .for_seconds = Number()});
    }
    return status;
  }

  // Returns a verdict as a termination message, without the size limit of the real launcher.
  std::string Verdict() {
    control::Verdict honest;
    honest.succeeded = Below(2) == 0;
    honest.epoch = AnEpoch();
    honest.world_size = Int();
    honest.progress = AProgress();
    if (Below(2) == 0) honest.checkpoint = ACheckpoint();
    honest.first_failure.emplace();
    honest.first_failure->rank = Int();
    honest.first_failure->exit_code = Int();
    honest.first_failure->signal = Int();
    nlohmann::json verdict = nlohmann::json::parse(control::EncodeVerdict(honest));
    verdict["beginning"] = {{"step", Number()}, {"message", Text()}};
    verdict["reason"] = Text();
    verdict["message"] = Text();
    for (int i = Below(40); i > 0; --i) verdict["firstFailure"]["lastLines"].push_back(Text());
    verdict["firstFailure"]["stack"] = Text();
    return verdict.dump();
  }

 private:
  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }
  template <typename T, std::size_t kN>
  T OneOf(const std::array<T, kN>& values) {
    return values[static_cast<std::size_t>(Below(static_cast<int>(kN)))];
  }
  int64_t Number() {
    return OneOf(std::array<int64_t, 6>{std::numeric_limits<int64_t>::min(), -1, 0, 1, 1'000'000,
                                        std::numeric_limits<int64_t>::max()});
  }
  int Int() {
    return OneOf(std::array<int, 6>{std::numeric_limits<int>::min(), -1, 0, 1, 1000,
                                    std::numeric_limits<int>::max()});
  }
  double Real() {
    return OneOf(std::array<double, 7>{std::numeric_limits<double>::quiet_NaN(),
                                       std::numeric_limits<double>::infinity(), -1, 0, 1e-300,
                                       1e300, 12.5});
  }
  std::string Text() {
    switch (Below(8)) {
      case 0:
        return "";
      case 1:
        return std::string(3000, 'x');
      case 2: {
        std::string text;
        while (text.size() < 3500) text += "€𝄞";
        return text;
      }
      case 3:
        return std::string("nul\0, \x1b[31m and a\nline", 22);
      case 4:
        return "NoQuorum";
      case 5:
        return "two words, and \"quotes\"";
      case 6:
        return "checkpoint";
      default:
        return std::string(1500, 'R');
    }
  }
  control::Epoch AnEpoch() { return {.term = Number(), .number = Number()}; }
  control::Progress AProgress() {
    return {.step = Number(),
            .total_steps = Number(),
            .samples_per_second = Real(),
            .loss = Real(),
            .accuracy = Real()};
  }
  control::CheckpointReport ACheckpoint() {
    return {.epoch = AnEpoch(), .step = Number(), .age_millis = Number(), .bytes = Number()};
  }
  control::RankExit AnExit() {
    control::RankExit exit;
    exit.rank = Int();
    exit.pod_uid = Text();
    exit.pod = Text();
    exit.node = Text();
    exit.slot = Int();
    exit.start = Text();
    exit.exit_code = Int();
    exit.signal = Int();
    for (int i = Below(list_limit_); i > 0; --i) exit.last_lines.push_back(Text());
    exit.stack = Text();
    return exit;
  }

  std::mt19937 random_;
  const int list_limit_;
};

}  // namespace ringmaster::testing
