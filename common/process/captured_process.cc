#include "common/process/captured_process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <span>
#include <unistd.h>
#include <utility>

#include <boost/asio/buffer.hpp>

namespace ringmaster {
namespace {

// How long to wait for the end of the output after the process has ended: a descendant outside the
// process group may keep the pipes open forever.
constexpr std::chrono::milliseconds kDrainLimit{500};

// Returns the first `count` bytes of `buffer`, without NULs: grep and others treat a log with NULs
// as a binary file, and Open MPI 5 ends some of its messages with a NUL.
std::string_view WithoutNul(std::span<char> buffer, std::size_t count) {
  const auto begin = buffer.begin();
  const auto end = std::remove(begin, begin + static_cast<std::ptrdiff_t>(count), '\0');
  return {begin, end};
}

}  // namespace

Result<std::shared_ptr<CapturedProcess>> CapturedProcess::Start(ChildReaper& reaper,
                                                                ProcessSpec spec,
                                                                Handlers handlers) {
  spec.capture_output = true;
  const Result<StartedProcess> started = StartProcess(spec);
  if (!started.ok()) return started.error();
  auto process =
      std::make_shared<CapturedProcess>(reaper, *started, spec.leaves_daemons, std::move(handlers));
  process->Read(false);
  process->Read(true);
  // The reaper owns the process until it exits.
  reaper.Watch(started->pid, [process](ProcessEnd end) { process->OnEnd(end); });
  return process;
}

CapturedProcess::CapturedProcess(ChildReaper& reaper, const StartedProcess& started,
                                 bool leaves_daemons, Handlers handlers)
    : reaper_(reaper),
      pid_(started.pid),
      leaves_daemons_(leaves_daemons),
      handlers_(std::move(handlers)),
      stdout_(reaper.io()),
      stderr_(reaper.io()),
      drain_limit_(reaper.io()) {
  stdout_.descriptor.assign(started.stdout_fd);
  stderr_.descriptor.assign(started.stderr_fd);
}

void CapturedProcess::Stop(std::chrono::milliseconds grace) {
  if (!ended_) reaper_.Stop(pid_, grace);
}

void CapturedProcess::Signal(int signal) {
  if (!ended_) kill(-pid_, signal);
}

void CapturedProcess::PauseOutput(bool paused) {
  paused_ = paused && !ended_;
  if (paused_) return;
  Read(false);
  Read(true);
}

void CapturedProcess::Read(bool is_stderr) {
  Stream& stream = is_stderr ? stderr_ : stdout_;
  if (paused_ || stream.reading || stream.ended) return;
  stream.reading = true;
  stream.descriptor.async_read_some(boost::asio::buffer(stream.buffer),
                                    [self = shared_from_this(), is_stderr](
                                        const boost::system::error_code& error, std::size_t count) {
                                      Stream& source = is_stderr ? self->stderr_ : self->stdout_;
                                      source.reading = false;
                                      if (error) {
                                        source.ended = true;
                                        return self->ReportWhenDrained();
                                      }
                                      self->Take(is_stderr, WithoutNul(source.buffer, count));
                                      self->Read(is_stderr);
                                    });
}

void CapturedProcess::Take(bool is_stderr, std::string_view data) {
  if (data.empty()) return;
  last_lines_.Append(is_stderr, data);
  if (const auto on_output = handlers_.on_output) on_output(is_stderr, data);
}

void CapturedProcess::OnEnd(ProcessEnd end) {
  ended_ = true;
  end_ = end;
  if (!leaves_daemons_) ChildReaper::KillGroup(pid_);
  PauseOutput(false);
  drain_limit_.expires_after(kDrainLimit);
  drain_limit_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error) return;
    boost::system::error_code ignored;
    self->stdout_.descriptor.close(ignored);
    self->stderr_.descriptor.close(ignored);
  });
  ReportWhenDrained();
}

void CapturedProcess::ReportWhenDrained() {
  if (!ended_ || !stdout_.ended || !stderr_.ended) return;
  drain_limit_.cancel();
  const Handlers handlers = std::exchange(handlers_, {});
  if (handlers.on_end) handlers.on_end(end_, last_lines_);
}

void PassThrough(bool is_stderr, std::string_view data) {
  while (!data.empty()) {
    const ssize_t count =
        write(is_stderr ? STDERR_FILENO : STDOUT_FILENO, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    data.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace ringmaster
