#include "worker/trainer/telemetry/stack_signal.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/control/position_page.h"

namespace ringmaster::trainer {
namespace {

// The variables that the handler uses. They do not change after the handler is installed.
int g_file = -1;
control::PositionPage* g_page = nullptr;

constexpr int kMaxFrames = 40;
constexpr int kOwnFrames = 2;  // number of frames that the handler and the kernel's signal add

// Writes a line such as "thread 4711" without stdio.
void WriteHeader(long thread) {
  std::array<char, 32> text{'t', 'h', 'r', 'e', 'a', 'd', ' '};
  std::array<char, 20> digits{};
  std::size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + thread % 10);
    thread /= 10;
  } while (thread > 0);
  std::size_t size = 7;
  while (count > 0) text[size++] = digits[--count];
  text[size++] = '\n';
  [[maybe_unused]] const ssize_t written = write(g_file, text.data(), size);
}

void OnStackSignal(int) {
  const int saved = errno;
  std::array<void*, kMaxFrames> frames{};
  const int count = backtrace(frames.data(), kMaxFrames);
  const long thread = syscall(SYS_gettid);
  WriteHeader(thread);
  if (count > kOwnFrames) {
    backtrace_symbols_fd(frames.data() + kOwnFrames, count - kOwnFrames, g_file);
  }
  g_page->stack_of.store(thread, std::memory_order_release);
  errno = saved;
}

}  // namespace

void WriteStacksTo(int file) {
  // The first call of backtrace() loads libgcc, which allocates; the handler must not allocate.
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);
  void* const memory =
      mmap(nullptr, sizeof(control::PositionPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED || lseek(file, control::kStackTextAt, SEEK_SET) < 0) return;
  g_page = static_cast<control::PositionPage*>(memory);
  g_file = file;
  struct sigaction action {};
  action.sa_handler = OnStackSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(control::kStackSignal, &action, nullptr);
}

}  // namespace ringmaster::trainer
