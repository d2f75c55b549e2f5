#include "worker/launcher/mpi/host_files.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <set>
#include <sstream>
#include <utility>

#include "common/control/secrets.h"

namespace ringmaster::launcher {
namespace {

Result<void> MustAll(const std::vector<Host>& hosts, bool (*is_safe)(const Host&),
                     const std::string& what) {
  const auto unsafe = std::find_if_not(hosts.begin(), hosts.end(), is_safe);
  if (unsafe == hosts.end()) return {};
  return Error{ErrorKind::kInvalid,
               "the agent of " + unsafe->pod + " reported " + what + ", which is invalid"};
}

}  // namespace

std::vector<std::string> HostNames(const std::vector<Host>& hosts) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  unsigned next = 1;
  for (const Host& host : hosts) {
    std::string name = host.address;
    if (!taken.insert(name).second) {
      name = "240." + std::to_string(next >> 16U & 255U) + "." + std::to_string(next >> 8U & 255U) +
             "." + std::to_string(next & 255U);
      ++next;
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string HostfileText(const std::vector<Host>& hosts) {
  const std::vector<std::string> names = HostNames(hosts);
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    text += names[i] + " slots=" + std::to_string(hosts[i].slots) + "\n";
  }
  return text;
}

std::string DiscoverHostsText(const std::vector<Host>& hosts) {
  std::string text = "#!/bin/sh\n";
  for (const Host& host : hosts) {
    text += "echo " + host.address + ":" + std::to_string(host.slots) + "\n";
  }
  return text;
}

std::string KnownHostsText(const std::vector<Host>& hosts, const std::string& host_public_key) {
  std::istringstream words(host_public_key);  // type, key, and a comment, which is ignored
  std::string type;
  std::string key;
  words >> type >> key;
  std::string text;
  for (const Host& host : hosts) {
    const std::string name = host.ssh_port == 22
                                 ? host.address
                                 : "[" + host.address + "]:" + std::to_string(host.ssh_port);
    text += name + " " + type + " " + key + "\n";
  }
  return text;
}

std::string SshConfigText(const std::vector<Host>& hosts, const std::string& identity_file,
                          const std::string& known_hosts_file) {
  const std::vector<std::string> names = HostNames(hosts);
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const Host& host = hosts[i];
    text += "Host " + names[i] + "\n";
    if (names[i] != host.address) text += "  HostName " + host.address + "\n";
    text += "  Port " + std::to_string(host.ssh_port) + "\n";
    if (!host.user.empty()) text += "  User " + host.user + "\n";
  }
  text += "Host *\n  IdentityFile " + identity_file + "\n  UserKnownHostsFile " + known_hosts_file +
          "\n" +
          "  GlobalKnownHostsFile none\n"
          "  IdentitiesOnly yes\n"
          "  IdentityAgent none\n"
          "  StrictHostKeyChecking yes\n"
          "  UpdateHostKeys no\n"
          "  PreferredAuthentications publickey\n"
          "  BatchMode yes\n"
          "  ConnectTimeout 20\n"
          "  ServerAliveInterval 5\n"
          "  LogLevel ERROR\n";
  return text;
}

HostFiles HostFilePaths(const std::string& directory) {
  return {directory + "/hostfile", directory + "/ssh_config", directory + "/known_hosts",
          directory + "/discover_hosts.sh"};
}

Result<void> WriteHostFiles(const HostFiles& paths, const std::vector<Host>& hosts) {
  if (Result<void> safe = MustAll(hosts, HasSafeAddress, "an address"); !safe.ok()) return safe;
  Result<void> written = control::WriteFileAtomically(paths.hostfile, HostfileText(hosts), 0644);
  if (!written.ok()) return written;
  return control::WriteFileAtomically(paths.discover_hosts, DiscoverHostsText(hosts), 0755);
}

Result<void> WriteSshFiles(const HostFiles& paths, const std::vector<Host>& hosts,
                           const std::string& identity_file, const std::string& host_public_key) {
  if (Result<void> safe = MustAll(hosts, HasSafeAddress, "an address"); !safe.ok()) return safe;
  if (Result<void> safe = MustAll(hosts, HasSafeLogin, "a port or user"); !safe.ok()) return safe;
  Result<void> written =
      control::WriteFileAtomically(paths.known_hosts, KnownHostsText(hosts, host_public_key), 0600);
  if (!written.ok()) return written;
  return control::WriteFileAtomically(paths.ssh_config,
                                      SshConfigText(hosts, identity_file, paths.known_hosts), 0600);
}

bool HasSafeAddress(const Host& host) {
  unsigned char bytes[16];
  return ::inet_pton(AF_INET, host.address.c_str(), bytes) == 1 ||
         ::inet_pton(AF_INET6, host.address.c_str(), bytes) == 1;
}

bool HasSafeLogin(const Host& host) {
  const bool user = std::all_of(host.user.begin(), host.user.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
  return user && host.user.rfind('-', 0) != 0 && host.ssh_port > 0 && host.ssh_port <= 65535;
}

}  // namespace ringmaster::launcher
