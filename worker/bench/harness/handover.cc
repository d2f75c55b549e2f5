#include "worker/bench/harness/handover.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace ringmaster::bench {

Handover::Handover() : fd_(::memfd_create("ringmaster-bench", MFD_CLOEXEC)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
}

Handover::~Handover() { ::close(fd_); }

void Handover::Write(const std::string& text) const {
  if (::pwrite(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw std::system_error(errno, std::generic_category(),
                            "writing a result for the parent process");
  }
}

std::string Handover::Read() const {
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t read = ::pread(fd_, piece.data(), piece.size(), static_cast<off_t>(text.size()));
    if (read <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(read));
  }
}

std::optional<ChildReport> InAProcess(const std::function<std::string()>& work) {
  const Handover handover;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      handover.Write(work());
      ::_exit(0);
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  int status = 0;
  struct rusage usage {};
  if (child < 0 || ::wait4(child, &status, 0, &usage) != child || status != 0) return std::nullopt;
  return ChildReport{.text = handover.Read(), .peak_kib = usage.ru_maxrss};
}

}  // namespace ringmaster::bench
