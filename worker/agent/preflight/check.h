#pragma once

// The shape of a preflight check: looks at one thing of this worker and says, in one line, what is
// wrong and what to do. A check only looks; it may block for a moment, so each runs on a thread of
// its own (preflight.h). One check a file.

#include <optional>
#include <string>

#include "worker/agent/config.h"

namespace ringmaster::agent {

struct Finding {
  std::string check;
  std::string message;
  bool fatal = true;  // false: worth a line in the log, the worker is ready all the same
};

using Check = std::optional<Finding> (*)(const Config& config);

std::optional<Finding> CheckSshd(const Config& config);
std::optional<Finding> CheckMpiDaemon(const Config& config);
std::optional<Finding> CheckScratchSpace(const Config& config);
std::optional<Finding> CheckSharedMemory(const Config& config);
std::optional<Finding> CheckHostName(const Config& config);
std::optional<Finding> CheckAddress(const Config& config);
std::optional<Finding> CheckProgram(const Config& config);
std::optional<Finding> CheckGpus(const Config& config);

// For checks: a variable of the container, or empty.
std::string Variable(const Config& config, const std::string& name);

// Legal as a host name: RFC 1123 labels, 64 bytes in all. Pure.
bool IsLegalHostName(const std::string& name);

}  // namespace ringmaster::agent
