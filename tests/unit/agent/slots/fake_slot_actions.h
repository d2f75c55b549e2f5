#pragma once

// Records the actions that slots request, in order: as messages by receiver, and as one line of
// text for test tables.

#include <map>
#include <string>
#include <vector>

#include "worker/agent/slots/slots.h"

namespace ringmaster::agent {

class FakeSlotActions final : public SlotActions {
 public:
  void DialLauncherAgain(const std::string& reason) override { Note("dial:" + reason); }
  void SendToLauncher(const control::Message& message) override {
    Note("launcher:" + Text(message));
    to_launcher.push_back(message);
  }
  bool LauncherTakesOutput() const override { return launcher_takes_output; }
  bool LauncherListens() const override { return launcher_listens; }
  void SendToRank(int slot, const control::Message& message) override {
    Note("rank:" + Text(message));
    to_rank[slot].push_back(message);
  }
  void SendToAttach(AttachId attach, const control::Message& message) override {
    Note("attach:" + Text(message));
    to_attach[attach].push_back(message);
  }
  void StopAttach(AttachId attach, std::chrono::milliseconds) override {
    stopped_attaches.push_back(attach);
  }
  void CloseAttach(AttachId attach) override { closed_attaches.push_back(attach); }
  Result<void> StartRank(int slot) override {
    if (!start_error.empty()) return Error{start_error_kind, start_error};
    Note("start");
    started.push_back(slot);
    return {};
  }
  Result<void> StartProgram(const ProgramPlace& place) override {
    if (!start_error.empty()) return Error{start_error_kind, start_error};
    programs.push_back(place);
    return {};
  }
  void RestartRankAfter(int, std::chrono::milliseconds delay) override {
    Note("start after " + std::to_string(delay.count()));
    restart_delays.push_back(delay);
  }
  void StopRank(int slot, std::chrono::milliseconds) override {
    Note("stop");
    stopped.push_back(slot);
  }
  void EndHangingRank(int slot, const std::string& start, const std::string& reason) override {
    Note("end hanging " + start);
    ended.emplace_back(slot, reason);
  }
  std::optional<control::OutOfMemory> LackOfMemory(const ProcessEnd&) override {
    return std::exchange(out_of_memory, std::nullopt);
  }
  void PrintLocally(int, int rank, bool, std::string_view data) override {
    printed += "[" + std::to_string(rank) + "]" + std::string(data);
  }

  // Returns the actions since the last call: "launcher:EpochAccepted 1.3, rank:RankLeave 1.3".
  std::string Done() { return std::exchange(done_, ""); }

  template <typename Wanted>
  static std::vector<Wanted> Of(const std::vector<control::Message>& messages) {
    std::vector<Wanted> found;
    for (const control::Message& message : messages) {
      if (const auto* wanted = std::get_if<Wanted>(&message)) found.push_back(*wanted);
    }
    return found;
  }
  template <typename Wanted>
  std::vector<Wanted> Sent() const {
    return Of<Wanted>(to_launcher);
  }

  std::vector<control::Message> to_launcher;
  std::map<int, std::vector<control::Message>> to_rank;
  std::map<AttachId, std::vector<control::Message>> to_attach;
  std::vector<AttachId> stopped_attaches;
  std::vector<AttachId> closed_attaches;
  std::vector<int> started;
  std::vector<ProgramPlace> programs;  // programs that were started
  std::vector<int> stopped;
  std::vector<std::chrono::milliseconds> restart_delays;
  std::vector<std::pair<int, std::string>> ended;  // ranks that hung: slot and reason
  std::string start_error;
  ErrorKind start_error_kind = ErrorKind::kNotFound;
  std::string printed;
  bool launcher_takes_output = true;
  bool launcher_listens = true;
  std::optional<control::OutOfMemory> out_of_memory;  // what LackOfMemory() returns

 private:
  void Note(const std::string& what) { done_ += (done_.empty() ? "" : ", ") + what; }

  // Returns the message type, and the epoch, start or code in the message.
  static std::string Text(const control::Message& message) {
    std::string text(control::TypeName(message));
    std::visit(
        [&](const auto& typed) {
          if constexpr (requires { typed.epoch; }) text += ' ' + ToText(typed.epoch);
          if constexpr (requires { typed.below; }) text += ' ' + ToText(typed.below);
          if constexpr (requires { typed.start; }) text += ' ' + std::string(typed.start);
          if constexpr (requires { typed.exit; }) {
            text += typed.exit.signal != 0 ? " signal " + std::to_string(typed.exit.signal)
                                           : " code " + std::to_string(typed.exit.exit_code);
          }
        },
        message);
    return text;
  }

  std::string done_;
};

inline SlotsOptions TestSlotsOptions(int slots, bool elastic) {
  return {.pod_uid = "uid",
          .pod = "worker-0",
          .node = "node",
          .slots = slots,
          .elastic = elastic,
          .program = "program",
          .nonce = "n"};
}

// Returns a world in which a rank of another worker precedes this worker's slots. `starts` are the
// starts of this worker's members, by slot; an empty start stands for the process in the slot.
inline control::StartEpoch TestStart(control::Epoch epoch, std::int64_t cohort,
                                     const std::vector<std::string>& starts) {
  control::StartEpoch start{epoch, cohort, {}};
  start.members.push_back({"other", "worker-9", "node9", "10.0.0.9", 0, "o-1", 0});
  for (const std::string& process : starts) {
    const int slot = static_cast<int>(start.members.size()) - 1;
    start.members.push_back({"uid", "worker-0", "node", "10.0.0.1", slot, process, slot + 1});
  }
  return start;
}

inline control::AttachHello TestAttach(std::int64_t cohort, int slot, bool direct = false) {
  return {cohort, slot, slot + 1, 2, direct};
}

}  // namespace ringmaster::agent
