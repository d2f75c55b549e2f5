#pragma once

// The files that describe the workers of a world to mpirun and ssh: hostfile, ssh_config,
// known_hosts, and discover_hosts.sh for users' scripts. Pure functions build the texts;
// WriteHostFiles and WriteSshFiles write each file atomically.

#include <string>
#include <vector>

#include "common/base/result.h"
#include "worker/launcher/model/actions.h"

namespace ringmaster::launcher {

// Returns mpirun's name of each host: its address, or an unused address of the range 240.0.0.0/4 if
// an earlier host has the same address (workers on one node's network). mpirun distinguishes hosts
// only by this name. mpirun connects with ssh, whose configuration has the real address, or with
// ringmaster-rsh.
std::vector<std::string> HostNames(const std::vector<Host>& hosts);

// Returns lines "NAME slots=N", in rank order.
std::string HostfileText(const std::vector<Host>& hosts);

// Returns a script that prints lines "ADDRESS:N", for horovodrun's --host-discovery-script.
std::string DiscoverHostsText(const std::vector<Host>& hosts);

// Returns known_hosts lines that pin the host key to the address and port of each host.
// `host_public_key` is the content of ssh-host-key.pub.
std::string KnownHostsText(const std::vector<Host>& hosts, const std::string& host_public_key);

// Returns a Host block for each worker, with its port, its address if that differs from the name,
// and its user if known, followed by the settings for all hosts.
std::string SshConfigText(const std::vector<Host>& hosts, const std::string& identity_file,
                          const std::string& known_hosts_file);

struct HostFiles {
  std::string hostfile;
  std::string ssh_config;
  std::string known_hosts;
  std::string discover_hosts;
};
HostFiles HostFilePaths(const std::string& directory);

// Writes hostfile and discover_hosts.
Result<void> WriteHostFiles(const HostFiles& paths, const std::vector<Host>& hosts);
// Writes known_hosts and ssh_config.
Result<void> WriteSshFiles(const HostFiles& paths, const std::vector<Host>& hosts,
                           const std::string& identity_file, const std::string& host_public_key);

// Agents report the address and the user. Return false for text that must not be in the files.
bool HasSafeAddress(const Host& host);
bool HasSafeLogin(const Host& host);

}  // namespace ringmaster::launcher
