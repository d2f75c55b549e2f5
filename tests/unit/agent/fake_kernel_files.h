#pragma once

// What the kernel says of memory, as a test wants it: /proc's files and a tree of control groups of
// its own, removed at its end.

#include <string>

#include "data_cache_folders.h"
#include "worker/agent/data_cache/memory_room.h"
#include "worker/agent/memory_group.h"

namespace ringmaster::agent {

class FakeKernelFiles {
 public:
  FakeKernelFiles() { Write("meminfo", "MemTotal: 200 kB\nMemAvailable:    1024 kB\n"); }

  void Write(const std::string& name, const std::string& text) { folders_.Put(name, text); }
  CgroupSources Groups() const {
    return {folders_.source() / "cgroup", folders_.source() / "cgroups"};
  }
  MemorySources Memory() const { return {folders_.source() / "meminfo", Groups()}; }

 private:
  DataCacheFolders folders_;
};

}  // namespace ringmaster::agent
