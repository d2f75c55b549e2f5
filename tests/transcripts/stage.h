#pragma once

// Simulates an elastic job without processes, sockets or clocks. The launcher's Coordinator and the
// agents' Slots are the real ones, and ranks follow a script. Messages are encoded, recorded and
// decoded, and arrive in the order of sending. The same script always produces the same recording;
// README.md describes its content.
//
// Workers are numbered from 0 and have one slot each.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/transcripts/transcript.h"
#include "worker/agent/slots/slots.h"
#include "worker/launcher/coordinator/coordinator.h"

namespace ringmaster::transcripts {

class Stage {
 public:
  Stage();
  ~Stage();

  // The operator orders these workers, and may request a checkpoint.
  void Order(const std::vector<int>& workers, bool checkpoint = false);
  void AskForStatus();

  // The worker's agent starts and connects; its rank has loaded at once.
  void StartAgent(int worker);
  // Every rank of the current world commits `steps` steps, then leaves it if it was asked to.
  void Step(int steps = 1);
  void Print(int worker, const std::string& text);
  void KillRank(int worker);
  // The rank reports that it cannot continue without this peer.
  void ReportBroken(int worker, int peer_rank);
  // Rank 0 writes the requested checkpoint.
  void WriteCheckpoint();
  // The rank reports the state from which its world begins.
  void Begin(int worker, const std::string& message);
  void LackProtection(int worker, const std::string& reason);
  // All ranks have completed their last step, and exit once they are released.
  void Finish();
  // Time passes, and heartbeats arrive.
  void Pass(std::chrono::milliseconds time);

  control::LauncherPhase phase() const { return membership_.phase(); }
  bool decided() const { return verdict_.has_value(); }
  const Transcripts& recorded() const { return recorded_; }

 private:
  class Agent;
  class Rank;
  friend class Agent;
  friend class Rank;

  control::Message OverTheWire(const control::Message& message) const;
  void Later(std::function<void()> what) { queue_.push_back(std::move(what)); }
  void Run();
  void Answer();
  void OnAttachEnded();
  void Apply(launcher::Actions actions);
  void ToLauncher(int worker, const control::Message& message);

  launcher::Coordinator::Time now_{std::chrono::hours(1)};
  launcher::Coordinator membership_;
  int64_t generation_ = 0;
  int64_t step_ = 0;
  int64_t cohort_ = 0;
  int attaches_ = 0;
  std::map<int, std::unique_ptr<Agent>> agents_;
  std::deque<std::function<void()>> queue_;
  std::optional<control::Verdict> verdict_;
  Transcripts recorded_;
};

}  // namespace ringmaster::transcripts
