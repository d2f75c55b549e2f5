#pragma once

// Passes a line of text from rank 0 to the process that started it, and runs work in a child
// process.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ringmaster::bench {

// Anonymous memory that the writer and the reader share; both may be the same process.
class Handover {
 public:
  // Create it before the ranks start. Throws std::system_error if memory is exhausted.
  Handover();
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  void Write(const std::string& text) const;
  // Returns the written text; empty if no rank wrote any.
  std::string Read() const;

 private:
  int fd_ = -1;
};

struct ChildReport {
  std::string text;
  int64_t peak_kib = 0;  // peak resident memory
};

// Runs `work` in a forked child process, which exits afterwards. Returns the result of `work`, or
// nothing if the child did not exit normally.
std::optional<ChildReport> InAProcess(const std::function<std::string()>& work);

}  // namespace ringmaster::bench
