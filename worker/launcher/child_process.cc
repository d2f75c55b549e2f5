#include "worker/launcher/child_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

namespace ringmaster::launcher {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  ~Pipe() {
    CloseRead();
    CloseWrite();
  }
  bool Open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  void CloseRead() {
    if (read_end >= 0) ::close(std::exchange(read_end, -1));
  }
  void CloseWrite() {
    if (write_end >= 0) ::close(std::exchange(write_end, -1));
  }
};

// The pointers that execve wants; the strings stay where they are.
std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Between fork and exec: only what is safe there.
[[noreturn]] void BecomeProgram(const char* file, char* const* arguments, char* const* environment,
                                int output, int errors, int failure) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGCHLD, SIGTERM, SIGINT}) ::signal(number, SIG_DFL);
  // Sockets of ours are not marked close-on-exec by the library that made them.
  if (::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
    for (int fd = 3; fd < 4096; ++fd) {
      if (fd != failure) ::close(fd);
    }
  }
  ::execve(file, arguments, environment);
  const int code = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure, &code, sizeof(code));
  ::_exit(127);
}

class Child : public std::enable_shared_from_this<Child> {
 public:
  Child(asio::io_context& io, pid_t pid, int output, int errors, ChildSpec spec)
      : pid_(pid), spec_(std::move(spec)), streams_{{{io, output}, {io, errors}}}, timer_(io) {}

  void Run() {
    Read(0);
    Read(1);
  }

  void OnReaped(int status) {
    reaped_ = true;
    exit_ =
        WIFSIGNALED(status) ? ChildExit{-1, WTERMSIG(status)} : ChildExit{WEXITSTATUS(status), 0};
    // Whatever it left behind in its group holds our pipes, and has no business any more.
    ::kill(-pid_, SIGKILL);
    timer_.expires_after(std::chrono::milliseconds(500));
    timer_.async_wait([self = shared_from_this()](const error_code& stopped) {
      if (!stopped) self->Report();
    });
    ReportIfOver();
  }

  void Stop(std::chrono::milliseconds grace) {
    if (reaped_) return;
    ::kill(-pid_, SIGTERM);
    timer_.expires_after(grace);
    timer_.async_wait([self = shared_from_this()](const error_code& stopped) {
      if (!stopped && !self->reaped_) ::kill(-self->pid_, SIGKILL);
    });
  }

  void Abandon() {
    if (!reaped_) ::kill(-pid_, SIGKILL);
    spec_.on_exit = nullptr;
    spec_.on_output = nullptr;
    error_code ignored;
    for (auto& stream : streams_) stream.close(ignored);
    timer_.cancel();
  }

  pid_t pid() const { return pid_; }

 private:
  void Read(std::size_t index) {
    streams_[index].async_read_some(
        asio::buffer(buffers_[index]),
        [self = shared_from_this(), index](const error_code& error, std::size_t count) {
          if (count > 0 && self->spec_.on_output) {
            self->spec_.on_output(index == 1, {self->buffers_[index].data(), count});
          }
          if (!error) return self->Read(index);
          ++self->ended_streams_;
          self->ReportIfOver();
        });
  }

  void ReportIfOver() {
    if (reaped_ && ended_streams_ == 2) Report();
  }

  void Report() {
    if (const auto on_exit = std::exchange(spec_.on_exit, nullptr)) {
      Abandon();
      on_exit(exit_);
    }
  }

  const pid_t pid_;
  ChildSpec spec_;
  std::array<asio::posix::stream_descriptor, 2> streams_;
  std::array<std::array<char, 16384>, 2> buffers_{};
  asio::steady_timer timer_;
  bool reaped_ = false;
  int ended_streams_ = 0;
  ChildExit exit_;
};

class ChildHandle final : public ChildProcess {
 public:
  explicit ChildHandle(std::shared_ptr<Child> child) : child_(std::move(child)) {}
  ~ChildHandle() override { child_->Abandon(); }
  int pid() const override { return child_->pid(); }
  void Stop(std::chrono::milliseconds grace) override { child_->Stop(grace); }

 private:
  std::shared_ptr<Child> child_;
};

}  // namespace

class ChildProcesses::Impl : public std::enable_shared_from_this<ChildProcesses::Impl> {
 public:
  explicit Impl(asio::io_context& io) : io_(io), signals_(io, SIGCHLD) {}

  void Watch() {
    signals_.async_wait([weak = weak_from_this()](const error_code& stopped, int) {
      const auto self = weak.lock();
      if (stopped || !self) return;
      self->Reap();
      self->Watch();
    });
  }

  Result<std::unique_ptr<ChildProcess>> Start(ChildSpec spec) {
    Pipe output;
    Pipe errors;
    Pipe failure;
    if (!output.Open() || !errors.Open() || !failure.Open()) return Failed(spec.file, errno);
    std::vector<std::string> environment;
    for (const auto& [name, value] : spec.environment) environment.push_back(name + "=" + value);
    const std::vector<char*> arguments = Pointers(spec.arguments);
    const std::vector<char*> variables = Pointers(environment);

    const pid_t pid = ::fork();
    if (pid < 0) return Failed(spec.file, errno);
    if (pid == 0) {
      BecomeProgram(spec.file.c_str(), arguments.data(), variables.data(), output.write_end,
                    errors.write_end, failure.write_end);
    }
    ::setpgid(pid, pid);  // both sides do it: whoever comes first
    output.CloseWrite();
    errors.CloseWrite();
    failure.CloseWrite();
    int code = 0;
    if (::read(failure.read_end, &code, sizeof(code)) == sizeof(code)) {
      ::waitpid(pid, nullptr, 0);
      return Failed(spec.file, code);
    }
    auto child = std::make_shared<Child>(io_, pid, std::exchange(output.read_end, -1),
                                         std::exchange(errors.read_end, -1), std::move(spec));
    children_[pid] = child;
    child->Run();
    return std::unique_ptr<ChildProcess>(std::make_unique<ChildHandle>(std::move(child)));
  }

 private:
  static Error Failed(const std::string& file, int code) {
    return Error{code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kUnavailable,
                 "while starting " + file + ": " + std::strerror(code)};
  }

  void Reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto node = children_.extract(pid);
      if (node.empty()) continue;
      if (const auto child = node.mapped().lock()) child->OnReaped(status);
    }
  }

  asio::io_context& io_;
  asio::signal_set signals_;
  std::map<pid_t, std::weak_ptr<Child>> children_;
};

ChildProcesses::ChildProcesses(asio::io_context& io) : impl_(std::make_shared<Impl>(io)) {
  impl_->Watch();
}

ChildProcesses::~ChildProcesses() = default;

Result<std::unique_ptr<ChildProcess>> ChildProcesses::Start(ChildSpec spec) {
  return impl_->Start(std::move(spec));
}

std::string FindProgram(const std::string& name, const std::string& path) {
  std::istringstream directories(path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string file = directory + "/" + name;
    struct stat info {};
    if (::stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        ::access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return "";
}

}  // namespace ringmaster::launcher
