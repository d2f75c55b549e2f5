#pragma once

// A Store that keeps each key in a file of a shared folder, for benchmarks, tests and plain hosts.
// The folder belongs to one world or one replay and must be empty when ranks start.

#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/comm/store.h"

namespace ringmaster::trainer {

class FileStore final : public Store {
 public:
  // Creates the folder if it is missing. kInvalid: the folder cannot be created.
  static Result<std::unique_ptr<FileStore>> Open(const std::string& folder);

  Result<void> Set(const std::string& key, const std::string& value) override;

  // Polls every few milliseconds, and later every 50 ms, because a network file system does not
  // report changes.
  Result<std::vector<std::string>> Get(const std::vector<std::string>& keys,
                                       Deadline deadline) override;

 private:
  explicit FileStore(std::string folder) : folder_(std::move(folder)) {}
  std::string PathOf(const std::string& key) const;

  const std::string folder_;
};

}  // namespace ringmaster::trainer
