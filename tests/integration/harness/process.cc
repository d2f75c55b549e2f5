#include "tests/integration/harness/process.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <random>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fakes/patience.h"

namespace ringmaster::testing {
namespace {

// Returns the descriptor of an unnamed file that contains the child's standard input.
int InputFile(const std::string& text) {
  char name[] = "/tmp/ringmaster-input-XXXXXX";
  const int fd = ::mkostemp(name, O_CLOEXEC);
  if (fd < 0) return -1;
  ::unlink(name);
  if (::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    ::close(fd);
    return -1;
  }
  ::lseek(fd, 0, SEEK_SET);
  return fd;
}

// Runs in the child between fork and exec, so it uses only async-signal-safe calls.
[[noreturn]] void Exec(char* const* argv, char* const* env, int in, int out, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  // Close inherited descriptors: a connection stays open for as long as the child has it open.
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  ::setpgid(0, 0);
  ::execvpe(argv[0], argv, env);
  ::_exit(127);
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) env.push_back(text);
  }
  for (const auto& [name, value] : added) env.push_back(name + "=" + value);
  return env;
}

}  // namespace

Result<std::unique_ptr<Process>> Process::Start(const ProcessOptions& options) {
  const std::string log = options.log.empty() ? "/dev/null" : options.log.string();
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int in = InputFile(options.stdin_text);
  if (out < 0 || in < 0) return Error{ErrorKind::kInternal, "cannot open " + log};
  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> environment = Environment(options.env);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> env = Pointers(environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) Exec(argv.data(), env.data(), in, out, parent);
  ::close(in);
  ::close(out);
  if (pid < 0) return Error{ErrorKind::kInternal, "cannot start " + options.argv[0]};
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  return std::unique_ptr<Process>(new Process(pid, pidfd, log));
}

Process::Process(int pid, int pidfd, std::filesystem::path log)
    : pid_(pid), pidfd_(pidfd), log_(std::move(log)) {}

Process::~Process() {
  if (Running()) {
    Signal(SIGKILL);
    Wait(std::chrono::seconds(10));
  }
  ::close(pidfd_);
}

void Process::Signal(int signal) const {
  ::syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0);
}

std::optional<int> Process::Wait(std::chrono::milliseconds limit) {
  if (status_) return status_;
  pollfd waited{pidfd_, POLLIN, 0};
  const auto deadline = std::chrono::steady_clock::now() + limit * Patience();
  int ready = 0;
  do {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    ready = ::poll(&waited, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return std::nullopt;
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) return std::nullopt;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

std::string Process::Log() const { return ReadFile(log_); }

CommandOutput RunCommand(const std::vector<std::string>& argv, const std::string& stdin_text,
                         std::chrono::milliseconds limit) {
  const TemporaryDirectory directory;
  ProcessOptions options;
  options.argv = argv;
  options.stdin_text = stdin_text;
  options.log = directory.path() / "output";
  auto process = Process::Start(options);
  if (!process.ok()) return {127, process.error().message};
  const std::optional<int> status = (*process)->Wait(limit);
  return {status.value_or(124), (*process)->Log()};
}

std::filesystem::path MemoryFolder() {
  std::error_code error;
  const auto room = std::filesystem::space("/dev/shm", error);
  return !error && room.available >= std::uintmax_t{1} << 30
             ? "/dev/shm"
             : std::filesystem::temp_directory_path();
}

TemporaryDirectory::TemporaryDirectory(const std::filesystem::path& parent) {
  std::string name = (parent / "ringmaster-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a directory");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int64_t StatusField(int pid, const std::string& field) {
  std::istringstream status(ReadFile("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1));
  }
  return -1;
}

void WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

int FreePort(const std::string& address) {
  // Linux assigns ports from 32768 on to outgoing connections.
  constexpr unsigned kFirst = 10000;
  constexpr unsigned kEnd = 32768;
  std::random_device random;
  sockaddr_in where{};
  where.sin_family = AF_INET;
  ::inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  for (int tries = 0; tries < 1000; ++tries) {
    const unsigned port = kFirst + random() % (kEnd - kFirst);
    where.sin_port = htons(static_cast<uint16_t>(port));
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool free = ::bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0;
    ::close(fd);
    if (free) return static_cast<int>(port);
  }
  return 0;
}

}  // namespace ringmaster::testing
