#pragma once

// The files that describe the workers of a world to mpirun and ssh: hostfile, ssh_config,
// known_hosts, and discover_hosts.sh for users' scripts. Pure functions build the texts;
// WriteHostFiles and WriteSshFiles write each file atomically.

#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/launcher/model/actions.h"

namespace ringmaster::launcher {

// What mpirun calls each host: its address, or, of all hosts but the first that share one (workers
// on one node's network), a number of the range 240.0.0.0/4, which no machine has. mpirun tells
// hosts apart by this name alone and connects to it through ssh, whose configuration knows the
// address, or ringmaster-rsh.
std::vector<std::string> HostNames(const std::vector<Host>& hosts);

// "NAME slots=N" a line, in rank order.
std::string HostfileText(const std::vector<Host>& hosts);

// "ADDRESS:N" a line when run, as horovodrun's --host-discovery-script wants it.
std::string DiscoverHostsText(const std::vector<Host>& hosts);

// Each host's key pinned under its address and port. `host_public_key` is the content of
// ssh-host-key.pub.
std::string KnownHostsText(const std::vector<Host>& hosts, const std::string& host_public_key);

// A Host block for each worker: its port, its address where that is not its name, and its user
// where that is known; then what holds for all.
std::string SshConfigText(const std::vector<Host>& hosts, const std::string& identity_file,
                          const std::string& known_hosts_file);

struct HostFiles {
  std::string hostfile;
  std::string ssh_config;
  std::string known_hosts;
  std::string discover_hosts;
};
HostFiles HostFilePaths(const std::string& directory);

// hostfile and discover_hosts.
Result<void> WriteHostFiles(const HostFiles& paths, const std::vector<Host>& hosts);
// known_hosts and ssh_config.
Result<void> WriteSshFiles(const HostFiles& paths, const std::vector<Host>& hosts,
                           const std::string& identity_file, const std::string& host_public_key);

// False for what must not reach these files: an agent reports its address and user as text.
bool HasSafeAddress(const Host& host);
bool HasSafeLogin(const Host& host);

}  // namespace ringmaster::launcher
