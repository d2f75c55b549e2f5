#include "tests/runtime/processes.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/fakes/patience.h"

namespace ringmaster::runtime_test {
namespace {

pid_t Spawn(const std::vector<std::string>& argv, int output_fd) {
  std::vector<char*> pointers;
  for (const std::string& word : argv) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  const int null_fd = open("/dev/null", O_RDONLY);
  dup2(null_fd, STDIN_FILENO);
  dup2(output_fd, STDOUT_FILENO);
  dup2(output_fd, STDERR_FILENO);
  execvp(pointers[0], pointers.data());
  std::perror(pointers[0]);
  _exit(127);
}

// Returns whether the child has ended within the limit, and sets its status.
bool AwaitEnd(pid_t pid, std::chrono::milliseconds limit, int* status) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd poller{pidfd, POLLIN, 0};
  poll(&poller, 1, static_cast<int>((limit * Patience()).count()));
  close(pidfd);
  return waitpid(pid, status, WNOHANG) == pid;
}

}  // namespace

Ran RunCommand(const std::vector<std::string>& argv) {
  std::array<char, 32> name{"/tmp/rmt-output-XXXXXX"};
  const int file = mkstemp(name.data());
  unlink(name.data());
  const pid_t pid = Spawn(argv, file);
  int status = 0;
  if (!AwaitEnd(pid, Seconds(60), &status)) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    ADD_FAILURE() << argv[0] << " took longer than a minute";
  }
  Ran ran;
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  lseek(file, 0, SEEK_SET);
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(file, buffer.data(), buffer.size())) > 0;) {
    ran.output.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(file);
  return ran;
}

Process::Process(const std::vector<std::string>& argv, std::string log_file)
    : log_file_(std::move(log_file)) {
  const int file = open(log_file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  pid_ = Spawn(argv, file);
  close(file);
}

Process::~Process() { Kill(); }

std::optional<Outcome> Process::Wait(std::chrono::milliseconds limit) {
  if (outcome_.has_value()) return outcome_;
  int status = 0;
  if (!AwaitEnd(pid_, limit, &status)) return std::nullopt;
  outcome_ = WIFSIGNALED(status) ? Outcome{-1, WTERMSIG(status)} : Outcome{WEXITSTATUS(status), 0};
  return outcome_;
}

void Process::Kill() {
  if (outcome_.has_value() || pid_ <= 0) return;
  kill(pid_, SIGKILL);
  Wait(Seconds(10));
}

std::string Process::Log() const { return ReadFile(log_file_); }

bool SendSignal(pid_t pid, int signal) { return pid > 0 && kill(pid, signal) == 0; }

bool WaitUntil(std::chrono::milliseconds limit, const std::function<bool()>& condition) {
  using std::chrono::milliseconds;
  const auto begin = std::chrono::steady_clock::now();
  while (!condition()) {
    const auto waited =
        std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
    if (waited >= limit * Patience()) return false;
    // Poll less often with time: conditions may start processes, which compete for the same CPUs.
    std::this_thread::sleep_for(std::clamp(waited / 10, milliseconds(20), milliseconds(100)));
  }
  return true;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace ringmaster::runtime_test
