#include "operator/kube/token_source.h"

#include <fstream>
#include <iterator>
#include <utility>

namespace ringmaster::kube {

TokenSource::TokenSource(const Clock& clock, std::string fixed_token, std::string file)
    : clock_(clock), file_(std::move(file)), token_(std::move(fixed_token)) {}

std::string TokenSource::Token() {
  const MutexLock lock(mutex_);
  if (file_.empty()) return token_;
  if (valid_ && clock_.Now() - read_at_ < kMaxAge) return token_;
  std::ifstream file(file_);
  std::string token{std::istreambuf_iterator<char>(file), {}};
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' '))
    token.pop_back();
  // The file may be missing briefly while the kubelet replaces it, so keep the
  // current token.
  if (!token.empty()) token_ = std::move(token);
  read_at_ = clock_.Now();
  valid_ = true;
  return token_;
}

void TokenSource::Drop(const std::string& token) {
  const MutexLock lock(mutex_);
  if (token == token_) valid_ = false;
}

}  // namespace ringmaster::kube
