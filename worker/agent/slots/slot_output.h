#pragma once

// Distributes the output of one slot's processes. The agent's standard streams, which are the
// worker's log, get all output. The launcher's log gets the output that concerns the whole job: all
// output of rank 0, and lines of other ranks except for Ringmaster's routine log lines. This output
// goes through the slot's attach or, without one, directly to the launcher. Output that nothing
// reads waits in a bounded buffer. Used by elastic_slots.h and direct_slots.h.

#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "worker/agent/slots/slot_actions.h"

namespace ringmaster::agent {

class SlotOutput {
 public:
  // The maximum size of waiting output. If it is exceeded, the oldest output is dropped, and one
  // line of output reports the number of dropped lines.
  static constexpr std::size_t kMaxWaitingBytes = 256 * 1024;

  enum class Way {
    kWait,      // the destination is not known yet
    kAttach,    // to the attach, at once
    kLauncher,  // to the launcher, in whole lines, while it accepts output
    kLocal      // only to the agent's streams
  };
  struct Route {
    Way way = Way::kWait;
    AttachId attach = 0;
    int rank = -1;
  };

  // `actions` must outlive this object. `pod` is for the line about dropped output.
  SlotOutput(int slot, std::string pod, SlotActions* actions);

  void Add(bool is_stderr, std::string_view data);

  // Changes the destination of all output, including the output that waits.
  void GoTo(const Route& route);

  // Passes on waiting output. Call when the launcher accepts output again.
  void Flow();

  // Call when the process has ended. Completes the process's last line, and sends the launcher all
  // waiting output, even if the launcher has not accepted earlier output yet.
  void EndLines();

 private:
  struct Chunk {
    bool is_stderr = false;
    std::string data;
  };

  std::string WithoutRoutine(std::string_view data);
  void Keep(bool is_stderr, std::string_view data);
  void Bound();
  void ReportDroppedLines();
  void Deliver(const Chunk& chunk);
  void DeliverLines(const Chunk& chunk);

  const int slot_;
  const std::string pod_;
  SlotActions* const actions_;
  Route route_;
  std::deque<Chunk> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::size_t dropped_lines_ = 0;          // number of dropped lines
  bool ended_ = false;                     // the process that printed has ended
  std::array<bool, 2> in_line_{};          // by stream: the last output was an incomplete line
  std::string begun_;                      // an unfinished line on stderr that may be routine
  std::array<std::string, 2> unfinished_;  // by stream: an incomplete line for the launcher
};

}  // namespace ringmaster::agent
