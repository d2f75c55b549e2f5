#pragma once

// An elastic job without processes, sockets or clocks: the launcher's Coordinator and the
// agents' Slots as they are, ranks that do as a script says, and between them the wire: what one
// sends the other gets after Encode and Decode, in the order in which it was sent, and on the way
// it is recorded. The same script always gives the same recording (README.md says what is in it).
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

  // The operator wants these workers, and may ask for a checkpoint.
  void Order(const std::vector<int>& workers, bool checkpoint = false);
  void AskForStatus();

  // The worker's agent starts and dials; its rank has loaded at once.
  void StartAgent(int worker);
  // Every rank of the present world commits so many steps; where they shall, they then leave it.
  void Step(int steps = 1);
  void Print(int worker, const std::string& text);
  void KillRank(int worker);
  // The rank cannot go on without this other one.
  void ReportBroken(int worker, int peer_rank);
  // Rank 0 writes the checkpoint that it was asked for.
  void WriteCheckpoint();
  // The rank says with what its world begins.
  void Begin(int worker, const std::string& message);
  void LackProtection(int worker, const std::string& reason);
  // All ranks are past their last step, and end once they are released.
  void Finish();
  // Time passes, heartbeats are heard.
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
