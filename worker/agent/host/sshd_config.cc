#include "worker/agent/host/sshd_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "common/control/pod_contract.h"
#include "worker/agent/config/config.h"

namespace ringmaster::agent {
namespace {

bool IsName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
}

bool IsPlainText(std::string_view value) {
  return std::all_of(value.begin(), value.end(),
                     [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

// Returns an argument of a directive in double quotes, with quotes and backslashes escaped.
std::string Quoted(std::string_view argument) {
  std::string quoted = "\"";
  for (const char c : argument) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// Returns all variables in one SetEnv line, because sshd reads only the first SetEnv line.
std::string SetEnvLine(const std::map<std::string, std::string>& environment) {
  std::string line;
  for (const auto& [name, value] : environment) {
    if (IsName(name) && IsPlainText(value)) line += ' ' + Quoted(name + '=' + value);
  }
  return line.empty() ? "" : "SetEnv" + line + '\n';
}

}  // namespace

std::string SshdConfigText(const SshdSettings& settings) {
  const std::string max_startups = std::to_string(settings.max_startups);
  return "Port " + std::to_string(settings.port) + '\n' +      //
         "ListenAddress " + settings.listen_address + '\n' +   //
         "HostKey " + Quoted(settings.host_key_file) + '\n' +  //
         "AuthorizedKeysFile " + Quoted(settings.authorized_keys_file) + '\n' +
         "PidFile none\n"
         "UsePAM no\n"
         // Disable StrictModes: only this user can write the key files, but StrictModes also checks
         // the home directory, which many images make writable for a group.
         "StrictModes no\n"
         "PubkeyAuthentication yes\n"
         "PasswordAuthentication no\n"
         "KbdInteractiveAuthentication no\n"
         "PermitRootLogin prohibit-password\n"
         "AllowTcpForwarding no\n"
         "AllowAgentForwarding no\n"
         "X11Forwarding no\n"
         "PermitTunnel no\n"
         "PrintMotd no\n"
         "PrintLastLog no\n"
         "UseDNS no\n"
         "LogLevel ERROR\n"
         "MaxStartups " +
         max_startups + ":100:" + max_startups + '\n' + SetEnvLine(settings.environment);
}

std::map<std::string, std::string> SessionEnvironment(
    const std::map<std::string, std::string>& container, const std::string& agent_socket,
    const std::string& working_dir, bool as_root) {
  static constexpr std::array<std::string_view, 11> kExcluded = {"HOME",
                                                                 "PWD",
                                                                 "OLDPWD",
                                                                 "USER",
                                                                 "LOGNAME",
                                                                 "SHELL",
                                                                 "TERM",
                                                                 "_",
                                                                 control::kEnvItemHashes,
                                                                 control::kEnvCredentialsDir,
                                                                 control::kEnvLaunchSpec};
  std::map<std::string, std::string> environment = container;
  for (const std::string_view name : kExcluded) environment.erase(std::string(name));
  environment[control::kEnvAgentSocket] = agent_socket;
  if (!working_dir.empty()) environment[kEnvWorkingDir] = working_dir;
  // Prevent bash from reading ~/.bashrc. Under sshd, bash reads the file in the outermost shell,
  // and commands in it (conda, pyenv) can take seconds or wait for a lock.
  environment["SHLVL"] = "1";
  if (!as_root) return environment;
  // The daemon of Open MPI runs as root only if both variables for its version are set.
  for (const char* name : {"PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM",
                           "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
    environment[name] = "1";
  }
  return environment;
}

}  // namespace ringmaster::agent
