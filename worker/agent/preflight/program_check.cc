#include <cerrno>
#include <cstring>
#include <unistd.h>

#include "common/process/process.h"
#include "worker/agent/preflight/check.h"

namespace ringmaster::agent {

std::optional<Finding> CheckProgram(const Config& config) {
  const std::string& program = config.spec.command.front();
  const std::string path = Variable(config, "PATH");
  const std::string file = FindProgram(program, path);
  if (file.empty()) {
    return Finding{"command", "there is no program \"" + program + "\" in PATH (" + path +
                                  "); correct spec.command or the image"};
  }
  if (access(file.c_str(), X_OK) == 0) return std::nullopt;
  return Finding{"command", "cannot execute \"" + file + "\": " + std::strerror(errno) +
                                "; correct spec.command or the image"};
}

}  // namespace ringmaster::agent
