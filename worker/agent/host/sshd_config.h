#pragma once

// Generates the sshd_config of the agent's sshd. It allows only key authentication of a single
// user, without privileges or PAM, so it works as any uid with a read-only root. Pure functions.

#include <map>
#include <string>

namespace ringmaster::agent {

struct SshdSettings {
  std::string listen_address;
  int port = 0;
  std::string host_key_file;         // absolute
  std::string authorized_keys_file;  // absolute
  int max_startups = 256;  // concurrent unauthenticated connections; mpirun opens one per host
  std::map<std::string, std::string>
      environment;  // environment of the sessions, which mpirun's daemon and its ranks inherit
};

// Returns the file's text. Omits variables that it cannot represent (control characters).
std::string SshdConfigText(const SshdSettings& settings);

// Returns the variables of `container` for ssh sessions. Keeps all variables that a user set,
// because a direct program runs below sshd and needs them. Omits variables that describe a single
// process (HOME, PWD, ...) and Ringmaster's variables that only the agent needs. Adds the agent's
// socket and working directory, and prevents bash from reading ~/.bashrc. Allows mpirun's daemon to
// run as root if the container does.
std::map<std::string, std::string> SessionEnvironment(
    const std::map<std::string, std::string>& container, const std::string& agent_socket,
    const std::string& working_dir, bool as_root);

}  // namespace ringmaster::agent
