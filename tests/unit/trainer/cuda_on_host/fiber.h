#pragma once

// A function with a separate stack that can be paused and resumed on any thread. Each switch of
// stacks is reported to AddressSanitizer. ThreadSanitizer treats a fiber as a thread, and a switch
// between fibers as no synchronization.

#include <atomic>
#include <cstddef>
#include <memory>
#include <ucontext.h>

#include <sanitizer/common_interface_defs.h>
#include <sanitizer/tsan_interface.h>

// Each function is null in programs built without its sanitizer.
#pragma weak __sanitizer_start_switch_fiber
#pragma weak __sanitizer_finish_switch_fiber
#pragma weak __tsan_get_current_fiber
#pragma weak __tsan_create_fiber
#pragma weak __tsan_switch_to_fiber

namespace ringmaster::trainer {

class Fiber {
 public:
  // `function` starts when the fiber is resumed. It must first call ComeFrom() and never return.
  explicit Fiber(void (*function)())
      : stack_(std::make_unique_for_overwrite<std::byte[]>(kStackBytes)),
        begin_(stack_.get()),
        bytes_(kStackBytes) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = kStackBytes;
    makecontext(&context_, function, 0);
    context_.uc_stack.ss_size = 0;  // keeps AddressSanitizer's marks of parts out of bounds
    if (__tsan_create_fiber != nullptr) thread_ = __tsan_create_fiber(0);
  }
  // Represents the caller, on its existing stack.
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void BeCaller() {
    if (__tsan_get_current_fiber != nullptr) thread_ = __tsan_get_current_fiber();
  }

  // Returns when another fiber resumes this one, which must then call ComeFrom().
  void LeaveFor(const Fiber& other) {
    if (__sanitizer_start_switch_fiber != nullptr) {
      __sanitizer_start_switch_fiber(&fake_stack_, other.begin_, other.bytes_);
    }
    if (__tsan_switch_to_fiber != nullptr) {
      __tsan_switch_to_fiber(other.thread_, __tsan_switch_to_fiber_no_sync);
    }
    swapcontext(&context_, &other.context_);
  }
  void ComeFrom(Fiber& other) {
    if (__sanitizer_finish_switch_fiber != nullptr) {
      __sanitizer_finish_switch_fiber(fake_stack_, &other.begin_, &other.bytes_);
    }
  }

 private:
  static constexpr std::size_t kStackBytes = 256 * 1024;  // enough for a sanitizer's report

  const std::unique_ptr<std::byte[]> stack_;
  const void* begin_ = nullptr;
  std::size_t bytes_ = 0;
  ucontext_t context_{};
  void* fake_stack_ = nullptr;           // for AddressSanitizer
  std::atomic<void*> thread_ = nullptr;  // for ThreadSanitizer
};

}  // namespace ringmaster::trainer
