#pragma once

// A function that can be left and gone on with, on a stack of its own, in whichever thread the
// caller is. AddressSanitizer is told of the change of stacks. To ThreadSanitizer a fiber is a
// thread, and going from one to another orders nothing.

#include <atomic>
#include <cstddef>
#include <memory>
#include <ucontext.h>

#include <sanitizer/common_interface_defs.h>
#include <sanitizer/tsan_interface.h>

// For a sanitizer that the program does not have, null.
#pragma weak __sanitizer_start_switch_fiber
#pragma weak __sanitizer_finish_switch_fiber
#pragma weak __tsan_get_current_fiber
#pragma weak __tsan_create_fiber
#pragma weak __tsan_switch_to_fiber

namespace ringmaster::trainer {

class Fiber {
 public:
  // `function` begins when it is gone on with for the first time, with ComeFrom(), and never ends.
  explicit Fiber(void (*function)())
      : stack_(std::make_unique_for_overwrite<std::byte[]>(kStackBytes)),
        begin_(stack_.get()),
        bytes_(kStackBytes) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = kStackBytes;
    makecontext(&context_, function, 0);
    context_.uc_stack.ss_size = 0;  // AddressSanitizer would forget what of it is out of bounds
    if (__tsan_create_fiber != nullptr) thread_ = __tsan_create_fiber(0);
  }
  // For callers themselves, on the stacks they have.
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void BeCaller() {
    if (__tsan_get_current_fiber != nullptr) thread_ = __tsan_get_current_fiber();
  }

  // Returns when somebody leaves for this one, which then calls ComeFrom().
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
  static constexpr std::size_t kStackBytes = 256 * 1024;  // a sanitizer's report needs some, too

  const std::unique_ptr<std::byte[]> stack_;
  const void* begin_ = nullptr;
  std::size_t bytes_ = 0;
  ucontext_t context_{};
  void* fake_stack_ = nullptr;           // AddressSanitizer's
  std::atomic<void*> thread_ = nullptr;  // ThreadSanitizer's
};

}  // namespace ringmaster::trainer
