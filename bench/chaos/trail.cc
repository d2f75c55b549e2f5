#include "bench/chaos/trail.h"

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>
#include <utility>

namespace ringmaster::chaos {

Trail::Trail(std::string folder)
    : folder_(std::move(folder)),
      events_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      ended_(eventfd(0, EFD_CLOEXEC)),
      thread_([this](const std::stop_token& stop) { Follow(stop); }) {
  if (inotify_add_watch(events_, folder_.c_str(), IN_MODIFY) < 0) {
    std::perror(("while watching " + folder_ + " for audit logs").c_str());
  }
}

Trail::~Trail() {
  thread_.request_stop();
  eventfd_write(ended_, 1);
  thread_.join();
  for (const auto& [name, file] : files_) close(file.descriptor);
  close(events_);
  close(ended_);
}

bool Trail::Await(std::chrono::milliseconds limit,
                  const std::function<bool(const Applied&)>& wanted) {
  MutexLock lock(mutex_);
  return grown_.WaitFor(mutex_, limit, [&]() RINGMASTER_REQUIRES(mutex_) {
    return !steps_.empty() && wanted(steps_.back());
  });
}

std::vector<Applied> Trail::steps() const {
  const MutexLock lock(mutex_);
  return steps_;
}

Applied Trail::newest() const {
  const MutexLock lock(mutex_);
  return steps_.empty() ? Applied{} : steps_.back();
}

void Trail::Follow(const std::stop_token& stop) {
  std::array<pollfd, 2> sources{{{events_, POLLIN, 0}, {ended_, POLLIN, 0}}};
  while (!stop.stop_requested()) {
    if (poll(sources.data(), sources.size(), -1) < 0 && errno != EINTR) return;
    for (const std::string& name : Grown()) Read(name);
  }
}

std::set<std::string> Trail::Grown() const {
  std::set<std::string> names;
  alignas(inotify_event) std::array<char, 1 << 14> buffer;
  for (ssize_t size; (size = read(events_, buffer.data(), buffer.size())) > 0;) {
    for (ssize_t at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(&buffer[static_cast<size_t>(at)]);
      if (event->len > 0) names.insert(event->name);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  return names;
}

void Trail::Read(const std::string& name) {
  if (!name.ends_with(".jsonl")) return;
  File& file = files_[name];
  if (file.descriptor < 0) {
    file.descriptor = open((folder_ + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  }
  const Time now = std::chrono::steady_clock::now();
  std::array<char, 1 << 14> buffer;
  for (ssize_t size; (size = read(file.descriptor, buffer.data(), buffer.size())) > 0;) {
    file.rest.append(buffer.data(), static_cast<std::size_t>(size));
  }
  std::size_t begin = 0;
  for (std::size_t end; (end = file.rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
    Take(file.rest.substr(begin, end - begin), now);
  }
  file.rest.erase(0, begin);
}

void Trail::Take(const std::string& line, Time now) {
  Applied applied{.seen = now, .step = 0, .epoch = {}};
  int rank = 0;
  if (std::sscanf(line.c_str(),
                  "{\"world\":{\"term\":%" SCNd64 ",\"number\":%" SCNd64 ",\"rank\":%d,\"size\":%d",
                  &applied.epoch.term, &applied.epoch.number, &rank, &applied.world_size) == 4) {
    world_sizes_[applied.epoch] = applied.world_size;
    return;
  }
  if (std::sscanf(line.c_str(), "{\"step\":%" SCNd64 ",\"epoch\":[%" SCNd64 ",%" SCNd64 "]",
                  &applied.step, &applied.epoch.term, &applied.epoch.number) != 3) {
    return;
  }
  const auto world = world_sizes_.find(applied.epoch);
  applied.world_size = world == world_sizes_.end() ? 0 : world->second;
  const MutexLock lock(mutex_);
  if (!steps_.empty() &&
      (applied.epoch < steps_.back().epoch ||
       (applied.epoch == steps_.back().epoch && applied.step <= steps_.back().step))) {
    return;
  }
  steps_.push_back(applied);
  grown_.NotifyAll();
}

}  // namespace ringmaster::chaos
