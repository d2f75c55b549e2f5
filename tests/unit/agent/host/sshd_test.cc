// Tests the worker's sshd as a real process.

#include "worker/agent/host/sshd.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ringmaster::agent {
namespace {

bool Accepts(int port) {
  const int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<unsigned short>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool connected =
      connect(socket_fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(socket_fd);
  return connected;
}

// Runs an sshd until it is killed, and writes its port to `port_fd`.
[[noreturn]] void RunAgentWithSshd(const std::filesystem::path& folder, int port_fd) {
  boost::asio::io_context io(1);
  ChildReaper reaper(io);
  SshdOptions options;
  options.settings.listen_address = "127.0.0.1";
  options.settings.host_key_file = folder / "host_key";
  options.settings.authorized_keys_file = folder / "host_key.pub";
  options.config_file = folder / "sshd_config";
  options.path = "/usr/bin:/bin";
  Sshd sshd(io, reaper, options,
            {.on_ready =
                 [port_fd](int port) {
                   [[maybe_unused]] const ssize_t written = write(port_fd, &port, sizeof port);
                 },
             .on_fault = [](const std::string&) { _exit(1); }});
  sshd.Start();
  io.run();
  _exit(1);
}

// The launcher treats a refused connection to the ssh port as proof that the agent is dead.
TEST(Sshd, DiesWithTheAgent) {
  if (FindSshd("/usr/bin:/bin").empty()) GTEST_SKIP() << "there is no sshd on this machine";
  std::array<char, 32> name{"/tmp/ringmaster-sshd-XXXXXX"};
  const std::filesystem::path folder = mkdtemp(name.data());
  const std::string keygen = "ssh-keygen -q -t ed25519 -N '' -f " + (folder / "host_key").string();
  ASSERT_EQ(std::system(keygen.c_str()), 0);
  std::array<int, 2> pipe_fds{};
  ASSERT_EQ(pipe2(pipe_fds.data(), O_CLOEXEC), 0);
  const pid_t agent = fork();
  if (agent == 0) RunAgentWithSshd(folder, pipe_fds[1]);
  close(pipe_fds[1]);
  int port = 0;
  ASSERT_EQ(read(pipe_fds[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  ASSERT_TRUE(Accepts(port));

  kill(agent, SIGKILL);
  waitpid(agent, nullptr, 0);

  // The kernel kills sshd some time later. Poll until the port refuses connections.
  int tries = 0;
  while (Accepts(port) && ++tries < 2000) poll(nullptr, 0, 5);
  EXPECT_FALSE(Accepts(port));
  close(pipe_fds[0]);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringmaster::agent
