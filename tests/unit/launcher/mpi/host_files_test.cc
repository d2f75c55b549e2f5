#include "worker/launcher/mpi/host_files.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "common/control/secrets.h"

namespace ringmaster::launcher {
namespace {

const std::vector<Host> kHosts = {{"uid-1", "digits-worker-1", "10.0.0.2", 2201, 4, "u1234"},
                                  {"uid-0", "digits-worker-0", "fd00::1", 22, 2, ""}};

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(HostFiles, ListsHostsInRankOrder) {
  EXPECT_EQ(HostfileText(kHosts), "10.0.0.2 slots=4\nfd00::1 slots=2\n");
  EXPECT_EQ(DiscoverHostsText(kHosts), "#!/bin/sh\necho 10.0.0.2:4\necho fd00::1:2\n");
}

TEST(HostFiles, PinsHostKeysUnderAddressAndPort) {
  EXPECT_EQ(KnownHostsText(kHosts, "ssh-ed25519 AAAAC3 job@ringmaster\n"),
            "[10.0.0.2]:2201 ssh-ed25519 AAAAC3\nfd00::1 ssh-ed25519 AAAAC3\n");
}

TEST(HostFiles, GivesEachHostItsPortAndChecksKeysForAll) {
  const std::string text = SshConfigText(kHosts, "/run/id", "/run/known");

  EXPECT_EQ(
      text.find("Host 10.0.0.2\n  Port 2201\n  User u1234\nHost fd00::1\n  Port 22\nHost *\n"), 0U);
  for (const char* line :
       {"  IdentityFile /run/id\n", "  UserKnownHostsFile /run/known\n",
        "  StrictHostKeyChecking yes\n", "  BatchMode yes\n", "  IdentitiesOnly yes\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(HostFiles, WorkersThatShareAnAddressAreDistinguished) {
  const std::vector<Host> hosts = {{"uid-0", "digits-worker-0", "10.0.0.2", 2201, 4, ""},
                                   {"uid-1", "digits-worker-1", "10.0.0.2", 2202, 4, ""},
                                   {"uid-2", "digits-worker-2", "10.0.0.3", 2201, 4, ""},
                                   {"uid-3", "digits-worker-3", "10.0.0.2", 2203, 4, ""}};

  EXPECT_EQ(HostfileText(hosts),
            "10.0.0.2 slots=4\n240.0.0.1 slots=4\n10.0.0.3 slots=4\n240.0.0.2 slots=4\n");
  EXPECT_EQ(SshConfigText(hosts, "/run/id", "/run/known")
                .find("Host 10.0.0.2\n  Port 2201\n"
                      "Host 240.0.0.1\n  HostName 10.0.0.2\n  Port 2202\n"
                      "Host 10.0.0.3\n  Port 2201\n"
                      "Host 240.0.0.2\n  HostName 10.0.0.2\n  Port 2203\nHost *\n"),
            0U);
  // ssh looks up a host key by the address and port to which it connects.
  EXPECT_EQ(KnownHostsText(hosts, "ssh-ed25519 A"),
            "[10.0.0.2]:2201 ssh-ed25519 A\n[10.0.0.2]:2202 ssh-ed25519 A\n"
            "[10.0.0.3]:2201 ssh-ed25519 A\n[10.0.0.2]:2203 ssh-ed25519 A\n");
}

TEST(HostFiles, ManyWorkersOfOneAddressHaveNamesOfTheirOwn) {
  const std::vector<Host> hosts(70'000, {"uid", "pod", "10.0.0.2", 2201, 1, ""});

  const std::vector<std::string> names = HostNames(hosts);

  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), hosts.size());
  EXPECT_EQ(names.back(), "240.1.17.111");
}

TEST(HostFiles, WritesThemAllAndReplacesThem) {
  char pattern[] = "/tmp/ringmaster-host-files-XXXXXX";
  const std::string directory = ::mkdtemp(pattern);
  const HostFiles paths = HostFilePaths(directory);

  const std::string known = "[10.0.0.2]:2201 ssh-ed25519 AAAA\n";
  for (const std::vector<Host>& hosts : {kHosts, std::vector<Host>{kHosts[0]}}) {
    ASSERT_TRUE(WriteHostFiles(paths, hosts).ok());
    ASSERT_TRUE(WriteSshFiles(paths, hosts, "/run/id", "ssh-ed25519 AAAA").ok());
  }

  EXPECT_EQ(Read(paths.hostfile), "10.0.0.2 slots=4\n");
  EXPECT_EQ(Read(paths.known_hosts), known);
  struct stat info {};
  ASSERT_EQ(::stat(paths.discover_hosts.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0755U);
  std::filesystem::remove_all(directory);
}

// mpirun reaches a host without sshd through the host's agent.
TEST(HostFiles, AHostWithoutSshHasNoPort) {
  char pattern[] = "/tmp/ringmaster-host-files-XXXXXX";
  const std::string directory = ::mkdtemp(pattern);
  const HostFiles paths = HostFilePaths(directory);
  const std::vector<Host> hosts = {{"uid-0", "digits-worker-0", "10.0.0.2", 0, 4, ""}};

  EXPECT_TRUE(WriteHostFiles(paths, hosts).ok());
  EXPECT_FALSE(WriteHostFiles(paths, {{"uid-0", "digits-worker-0", "evil", 0, 4, ""}}).ok());
  const Result<void> refused = WriteSshFiles(paths, hosts, "/run/id", "ssh-ed25519 AAAA");

  EXPECT_EQ(Read(paths.hostfile), "10.0.0.2 slots=4\n");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "the agent of digits-worker-0 reported a port or user, which is invalid");
  EXPECT_FALSE(std::filesystem::exists(paths.ssh_config));
  std::filesystem::remove_all(directory);
}

TEST(HostFiles, RefusesTextThatIsNoAddressOrUser) {
  for (const Host& bad :
       {Host{"u", "p", "10.0.0.1\nHost *", 22, 1, ""}, Host{"u", "p", "evil.example", 22, 1, ""},
        Host{"u", "p", "10.0.0.1", 0, 1, ""}, Host{"u", "p", "10.0.0.1", 70000, 1, ""},
        Host{"u", "p", "10.0.0.1", 22, 1, "a\n  ProxyCommand x"},
        Host{"u", "p", "10.0.0.1", 22, 1, "-x"}, Host{"u", "p", "", 22, 1, ""}}) {
    EXPECT_FALSE(HasSafeAddress(bad) && HasSafeLogin(bad)) << bad.address << " " << bad.user;
  }
}

}  // namespace
}  // namespace ringmaster::launcher
