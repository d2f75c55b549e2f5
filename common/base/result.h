#pragma once

// The return type of functions that can fail: a value or an Error.
//
// Callers use the kind of an Error to decide what to do next. The message of an Error is for users:
// "while doing X: reason", in lower case, without a full stop. Each layer adds its context with
// `WithContext`; the top layer logs or reports the error once.
//
//   Result<Job> job = Load(path);
//   if (!job.ok()) return job.error().WithContext("loading the job");
//   Use(*job);

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace ringmaster {

enum class ErrorKind {
  kInvalid,        // the input breaks a rule; a retry with the same input fails again
  kNotFound,       // the object does not exist
  kAlreadyExists,  // an object with this name exists
  kConflict,       // another client changed the object first
  kForbidden,      // we lack permission, or a policy or a quota refuses the request
  kUnauthorized,   // our credentials are not accepted
  kExpired,        // the requested version is gone (HTTP 410): list again
  kThrottled,      // the other side asks us to retry later
  kUnavailable,    // the other side failed or is unreachable; a retry may help
  kTimeout,        // a deadline passed
  kCancelled,      // we were asked to stop
  kInternal,       // an invariant of our own code is broken
};

// Returns the kind's stable name, for logs and metrics labels.
constexpr const char* ToString(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid:
      return "invalid";
    case ErrorKind::kNotFound:
      return "not_found";
    case ErrorKind::kAlreadyExists:
      return "already_exists";
    case ErrorKind::kConflict:
      return "conflict";
    case ErrorKind::kForbidden:
      return "forbidden";
    case ErrorKind::kUnauthorized:
      return "unauthorized";
    case ErrorKind::kExpired:
      return "expired";
    case ErrorKind::kThrottled:
      return "throttled";
    case ErrorKind::kUnavailable:
      return "unavailable";
    case ErrorKind::kTimeout:
      return "timeout";
    case ErrorKind::kCancelled:
      return "cancelled";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "unknown";
}

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  std::string reason{};  // a stable CamelCase word if the kind is too coarse ("QuotaExceeded")
  // For kThrottled: the delay that the other side requests before a retry; 0: unknown.
  std::chrono::milliseconds retry_after{0};

  // Returns this error with the context before its message: "while <doing>: <message>".
  [[nodiscard]] Error WithContext(const std::string& doing) const {
    return {kind, "while " + doing + ": " + message, reason, retry_after};
  }
};

// Either a T or an Error. Dereferencing a Result that is not ok() aborts the process, because that
// is a bug in our code.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const T& operator*() const& { return Value(); }
  T& operator*() & { return const_cast<T&>(Value()); }
  T&& operator*() && { return std::move(const_cast<T&>(Value())); }
  const T* operator->() const { return &Value(); }
  T* operator->() { return const_cast<T*>(&Value()); }

  // REQUIRES: !ok().
  const Error& error() const {
    if (ok()) std::abort();
    return std::get<1>(state_);
  }

 private:
  const T& Value() const {
    if (!ok()) std::abort();
    return std::get<0>(state_);
  }

  std::variant<T, Error> state_;
};

// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }

  // REQUIRES: !ok().
  const Error& error() const {
    if (ok()) std::abort();
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace ringmaster
