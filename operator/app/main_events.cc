#include "operator/app/main_events.h"

#include <csignal>
#include <cstdlib>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace ringmaster {

MainEvents::MainEvents() {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  signals_ = signalfd(-1, &stops, SFD_CLOEXEC);
  if (signals_ < 0 || pipe(pipe_) != 0) std::abort();
}

MainEvents::~MainEvents() {
  close(signals_);
  close(pipe_[0]);
  close(pipe_[1]);
}

void MainEvents::Post(Event event) const {
  const char byte = static_cast<char>(event);
  if (write(pipe_[1], &byte, 1) != 1) std::abort();
}

MainEvents::Event MainEvents::Wait() const {
  pollfd sources[2] = {{signals_, POLLIN, 0}, {pipe_[0], POLLIN, 0}};
  while (true) {
    if (poll(sources, 2, -1) < 0) continue;  // EINTR
    if ((sources[0].revents & POLLIN) != 0) {
      signalfd_siginfo info;
      if (read(signals_, &info, sizeof info) == sizeof info) return Event::kStop;
    }
    char byte = 0;
    if ((sources[1].revents & POLLIN) != 0 && read(pipe_[0], &byte, 1) == 1)
      return static_cast<Event>(byte);
  }
}

}  // namespace ringmaster
