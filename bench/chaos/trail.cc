#include "bench/chaos/trail.h"

#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

namespace ringmaster::chaos {

Trail::Trail(std::string folder)
    : folder_(std::move(folder)), thread_([this](const std::stop_token& stop) { Follow(stop); }) {}

bool Trail::Await(std::chrono::milliseconds limit,
                  const std::function<bool(const Applied&)>& wanted) {
  std::unique_lock lock(mutex_);
  return grown_.wait_for(lock, limit, [&] { return !steps_.empty() && wanted(steps_.back()); });
}

std::vector<Applied> Trail::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

Applied Trail::newest() const {
  const std::lock_guard lock(mutex_);
  return steps_.empty() ? Applied{} : steps_.back();
}

void Trail::Follow(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
      if (entry.path().extension() == ".jsonl") Read(entry.path());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // files tell nobody that they grew
  }
}

void Trail::Read(const std::string& path) {
  File& file = files_[path];
  std::error_code error;
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path, error));
  if (error || size <= file.offset) return;
  std::ifstream stream(path, std::ios::binary);
  stream.seekg(file.offset);
  std::string text(static_cast<std::size_t>(size - file.offset), '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  file.offset += static_cast<std::streamoff>(text.size());
  const Time now = std::chrono::steady_clock::now();
  file.rest += text;
  std::size_t begin = 0;
  for (std::size_t end; (end = file.rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
    Take(file.rest.substr(begin, end - begin), now);
  }
  file.rest.erase(0, begin);
}

void Trail::Take(const std::string& line, Time now) {
  Applied applied{.seen = now, .step = 0, .epoch = {}};
  if (std::sscanf(line.c_str(), "{\"step\":%" SCNd64 ",\"epoch\":[%" SCNd64 ",%" SCNd64 "]",
                  &applied.step, &applied.epoch.term, &applied.epoch.number) != 3) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!steps_.empty() &&
      (applied.epoch < steps_.back().epoch ||
       (applied.epoch == steps_.back().epoch && applied.step <= steps_.back().step))) {
    return;
  }
  steps_.push_back(applied);
  grown_.notify_all();
}

}  // namespace ringmaster::chaos
