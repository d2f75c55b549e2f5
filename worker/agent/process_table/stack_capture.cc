#include "worker/agent/process_table/stack_capture.h"

#include <algorithm>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "worker/agent/process_table/stack_text.h"

namespace ringmaster::agent {
namespace {

constexpr std::chrono::milliseconds kLook{2};

}  // namespace

void StackCapture::Start(boost::asio::io_context& io, pid_t process,
                         std::shared_ptr<const RankPage> page, const Limits& limits, Done done) {
  const auto capture =
      std::make_shared<StackCapture>(io, process, std::move(page), limits, std::move(done));
  const bool answers = capture->page_ != nullptr && Handles(process, control::kStackSignal);
  if (!answers) capture->next_ = capture->threads_.size();
  if (answers) capture->written_ = capture->page_->ReadStacks().size();
  capture->After(std::chrono::milliseconds(0), &StackCapture::Ask);
}

StackCapture::StackCapture(boost::asio::io_context& io, pid_t process,
                           std::shared_ptr<const RankPage> page, const Limits& limits, Done done)
    : timer_(io),
      process_(process),
      page_(std::move(page)),
      limits_(limits),
      done_(std::move(done)),
      threads_(ThreadsOf(process, limits.threads, &count_)),
      deadline_(Clock::now() + limits.all) {
  if (page_ == nullptr) return;
  const pid_t owner = page_->OwnerThread();
  count_ -= std::erase_if(threads_, [owner](const auto& thread) { return thread.id == owner; });
}

// Sends the stack signal to the next thread that may answer.
void StackCapture::Ask() {
  while (next_ < threads_.size() && threads_[next_].CannotRunHandlers()) ++next_;
  if (next_ >= threads_.size() || Clock::now() >= deadline_) return Finish();
  if (syscall(SYS_tgkill, process_, threads_[next_].id, control::kStackSignal) != 0) {
    ++next_;
    return After(std::chrono::milliseconds(0), &StackCapture::Ask);
  }
  thread_deadline_ = std::min(deadline_, Clock::now() + limits_.thread);
  After(kLook, &StackCapture::Look);
}

void StackCapture::Look() {
  const std::int64_t newest = page_->NewestStack();
  const bool answered = newest == threads_[next_].id;
  if (!answered && Clock::now() < thread_deadline_) return After(kLook, &StackCapture::Look);
  const bool all = newest == control::kAllStacks && !NewText().empty();
  next_ = all ? threads_.size() : next_ + 1;
  Ask();
}

void StackCapture::After(std::chrono::milliseconds delay, void (StackCapture::*next)()) {
  timer_.expires_after(delay);
  timer_.async_wait([self = shared_from_this(), next](const boost::system::error_code& cancelled) {
    if (!cancelled) (self.get()->*next)();
  });
}

void StackCapture::Finish() {
  if (page_ == nullptr || page_->NewestStack() != control::kAllStacks) {
    return done_(StackText(threads_, count_, page_ == nullptr ? "" : page_->ReadStacks()));
  }
  done_(NewText() + StackText(threads_, count_, ""));
}

std::string StackCapture::NewText() const {
  const std::string text = page_->ReadStacks();
  return text.substr(std::min(written_, text.size()));
}

}  // namespace ringmaster::agent
