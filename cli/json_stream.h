#pragma once

// Splits the output of `kubectl get --watch -o json`, a sequence of multi-line objects, into
// objects. Does no I/O.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace ringmaster::cli {

class JsonStream {
 public:
  using OnObject = std::function<void(std::string_view text)>;

  explicit JsonStream(OnObject on_object) : on_object_(std::move(on_object)) {}

  // Skips objects of more than 16 MiB; Kubernetes objects are smaller.
  void Add(std::string_view data);

 private:
  const OnObject on_object_;
  std::string object_{};
  int depth_ = 0;
  bool in_text_ = false;
  bool escaped_ = false;
};

}  // namespace ringmaster::cli
