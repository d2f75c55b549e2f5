#include "common/process/process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <linux/close_range.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ringmaster {
namespace {

// A pipe; both ends are closed on exec.
struct Pipe {
  int read_end = -1;
  int write_end = -1;

  bool Open() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  void CloseRead() { Close(&read_end); }
  void CloseWrite() { Close(&write_end); }
  void CloseBoth() {
    CloseRead();
    CloseWrite();
  }

 private:
  static void Close(int* descriptor) {
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
  }
};

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string PathOf(const std::vector<std::string>& environment) {
  for (const std::string& entry : environment) {
    if (entry.starts_with("PATH=")) return entry.substr(5);
  }
  return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

// The values that the child uses between fork and exec. They are prepared before the fork, because
// only async-signal-safe calls are allowed after it.
struct ChildPlan {
  const char* file;
  char* const* argv;
  char* const* environment;
  int stdin_fd;   // -1: inherited
  int stdout_fd;  // -1: inherited
  int stderr_fd;  // -1: inherited
  int error_fd;   // errno is written to it when exec fails
  Pipe hold;      // if it is open, the program starts when its write end is closed
  bool keep_descriptors;
  int death_signal;
  std::optional<mode_t> mask;
  pid_t parent;
};

// Some libraries open descriptors that survive exec. A program that inherited one of our
// connections would keep it open after we end, and could write to it.
void InheritOnlyStandardStreams() {
  constexpr int kFirst = STDERR_FILENO + 1;
  if (close_range(kFirst, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  constexpr int kHighest = 65536;  // the kernel lacks close_range: mark all possible descriptors
  for (int descriptor = kFirst; descriptor < kHighest; ++descriptor) {
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  }
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, plan.death_signal);
  if (getppid() != plan.parent) _exit(127);  // the parent died before prctl took effect
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  if (plan.hold.read_end >= 0) {
    char none_comes = 0;
    close(plan.hold.write_end);
    while (read(plan.hold.read_end, &none_comes, 1) < 0 && errno == EINTR) continue;
  }
  if (plan.mask) umask(*plan.mask);
  if (plan.stdin_fd >= 0) dup2(plan.stdin_fd, STDIN_FILENO);
  if (plan.stdout_fd >= 0) dup2(plan.stdout_fd, STDOUT_FILENO);
  if (plan.stderr_fd >= 0) dup2(plan.stderr_fd, STDERR_FILENO);
  if (!plan.keep_descriptors) InheritOnlyStandardStreams();
  execve(plan.file, plan.argv, plan.environment);
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = write(plan.error_fd, &reason, sizeof reason);
  _exit(127);
}

// Returns the errno of a failed exec, or 0 if exec has succeeded, which closes the pipe.
int ReadExecError(int error_fd) {
  int reason = 0;
  ssize_t got = 0;
  do {
    got = read(error_fd, &reason, sizeof reason);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof reason) ? reason : 0;
}

Error CannotStartNow(const std::string& program, int reason) {
  return {ErrorKind::kUnavailable,
          "the machine cannot start \"" + program + "\" now: " + std::strerror(reason)};
}

// Returns true for temporary errors: resources are exhausted, or a writer has the program open.
bool MayPass(int reason) {
  return reason == EAGAIN || reason == ENOMEM || reason == EMFILE || reason == ENFILE ||
         reason == ETXTBSY;
}

Error CannotExecute(const std::string& program, int reason) {
  if (MayPass(reason)) return CannotStartNow(program, reason);
  const bool missing = reason == ENOENT;
  return {missing ? ErrorKind::kNotFound : ErrorKind::kForbidden,
          "cannot execute \"" + program + "\": " + std::strerror(reason) +
              (missing ? "; check that it and its interpreter are in the image"
                       : "; check that it is built for this machine and executable")};
}

void MakeNonBlocking(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

}  // namespace

std::string FindProgram(const std::string& program, const std::string& path) {
  if (program.find('/') != std::string::npos) return program;
  std::string_view rest = path;
  while (!program.empty()) {
    const std::size_t end = rest.find(':');
    const std::string folder(rest.substr(0, end));
    const std::string candidate = (folder.empty() ? "." : folder) + '/' + program;
    struct stat status {};
    if (stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return "";
}

Result<StartedProcess> StartProcess(const ProcessSpec& spec) {
  if (spec.argv.empty()) return Error{ErrorKind::kInvalid, "the command is empty"};
  const std::string file = FindProgram(spec.argv[0], PathOf(spec.environment));
  if (file.empty()) {
    return Error{ErrorKind::kNotFound, "program \"" + spec.argv[0] + "\" not found in PATH (" +
                                           PathOf(spec.environment) + ")"};
  }
  const std::vector<char*> argv = Pointers(spec.argv);
  const std::vector<char*> environment = Pointers(spec.environment);
  Pipe error, output, errors, hold;
  const int null_fd = spec.keep_stdin ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool opened = error.Open() && (!spec.capture_output || (output.Open() && errors.Open())) &&
                      (!spec.on_fork || hold.Open());
  const ChildPlan plan{.file = file.c_str(),
                       .argv = argv.data(),
                       .environment = environment.data(),
                       .stdin_fd = null_fd,
                       .stdout_fd = output.write_end,
                       .stderr_fd = errors.write_end,
                       .error_fd = error.write_end,
                       .hold = hold,
                       .keep_descriptors = spec.keep_descriptors,
                       .death_signal = spec.death_signal,
                       .mask = spec.mask,
                       .parent = getpid()};
  const pid_t pid = opened ? fork() : -1;
  const int fork_error = errno;
  if (pid == 0) RunChild(plan);
  if (pid > 0 && spec.on_fork) spec.on_fork(pid);

  hold.CloseBoth();
  error.CloseWrite();
  output.CloseWrite();
  errors.CloseWrite();
  if (null_fd >= 0) close(null_fd);
  const int exec_error = pid > 0 ? ReadExecError(error.read_end) : 0;
  error.CloseRead();
  if (pid < 0 || exec_error != 0) {
    output.CloseRead();
    errors.CloseRead();
    if (pid < 0) return CannotStartNow(file, fork_error);
    waitpid(pid, nullptr, 0);
    return CannotExecute(file, exec_error);
  }
  if (spec.capture_output) {
    MakeNonBlocking(output.read_end);
    MakeNonBlocking(errors.read_end);
  }
  return StartedProcess{pid, output.read_end, errors.read_end};
}

void StartAgain(char* const* argv) {
  InheritOnlyStandardStreams();
  execv("/proc/self/exe", argv);
  _exit(1);
}

}  // namespace ringmaster
