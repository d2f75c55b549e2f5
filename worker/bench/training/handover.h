#pragma once

// A line of text that rank 0 hands to the process that started it: memory without a name, which
// both have. Also where they are one process.

#include <string>

namespace ringmaster::bench {

class Handover {
 public:
  // Before the ranks start. Throws std::system_error where there is no memory for it.
  Handover();
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  void Write(const std::string& text) const;
  // Empty where nobody wrote.
  std::string Read() const;

 private:
  int fd_ = -1;
};

}  // namespace ringmaster::bench
