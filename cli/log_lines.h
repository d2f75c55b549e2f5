#pragma once

// Parses the lines of a job's logs and orders them by time. Does no I/O.
//
// A worker's log contains the lines of its ranks, each prefixed with "[rank N] ", and those of its
// agent. A launcher's log contains the launcher's lines and mpirun's. It repeats the output of rank
// 0 and unusual output of other ranks, with or without mpirun's tag "[1,N]<stdout>: ".

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace ringmaster::cli {

struct LogLine {
  int64_t nanos = 0;   // nanoseconds since 1970, by the node's clock
  std::string time{};  // the same time, as text
  std::string text{};
  int rank = -1;            // the rank that wrote the line; -1: a Ringmaster program wrote it
  bool may_repeat = false;  // whether this line of a launcher's log may also be in a worker's log
};

// Parses a line of `kubectl logs --timestamps`. A line without a time gets the time `otherwise`.
LogLine ReadLogLine(std::string_view line, bool of_launcher, int64_t otherwise);

// Merges streams by time. The lines of each stream must be in order of time.
class LogMerge {
 public:
  struct Limits {
    int64_t held_millis = 0;  // the longest time for which a line is held back; 0: no limit
  };
  // Prints a line of the log of the Pod `name`.
  using Print = std::function<void(const std::string& name, const LogLine& line)>;

  LogMerge(Limits limits, Print print) : limits_(limits), print_(std::move(print)) {}

  int Open(const std::string& name);
  void Add(int stream, LogLine line, int64_t now_millis);
  // Declares that the stream has no more lines.
  void Close(int stream);
  // Returns true if a stream is far ahead of others, so that reading it should pause.
  bool Full(int stream) const;

  // Prints the oldest lines while all open streams have lines or a line was held back too long.
  void Show(int64_t now_millis);
  bool Empty() const { return streams_.empty(); }

 private:
  struct Held {
    LogLine line;
    int64_t arrived_millis;
  };
  struct Stream {
    std::string name;
    bool open = true;
    std::size_t bytes = 0;
    std::deque<Held> held{};
  };

  void ShowFirst(Stream& stream);
  // Returns true if the line was already printed from its worker's log. Remembers workers' lines.
  bool Repeats(const LogLine& line);

  const Limits limits_;
  const Print print_;
  std::map<int, Stream> streams_;
  int opened_ = 0;
  std::unordered_map<std::size_t, int> recent_;  // hash of a rank's line -> count
  std::deque<std::size_t> recent_in_order_;
};

}  // namespace ringmaster::cli
