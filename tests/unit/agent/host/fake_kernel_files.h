#pragma once

// What the kernel says of memory, as a test wants it: /proc's files and a tree of control groups of
// its own, removed at its end.

#include <filesystem>
#include <string>

#include "tests/unit/agent/data_cache/data_cache_folders.h"
#include "worker/agent/host/memory_group.h"

namespace ringmaster::agent {

class FakeKernelFiles {
 public:
  FakeKernelFiles() { Write("meminfo", "MemTotal: 200 kB\nMemAvailable:    1024 kB\n"); }

  void Write(const std::string& name, const std::string& text) { folders_.Put(name, text); }
  CgroupSources Groups() const {
    return {folders_.source() / "cgroup", folders_.source() / "cgroups"};
  }
  std::filesystem::path Meminfo() const { return folders_.source() / "meminfo"; }

 private:
  DataCacheFolders folders_;
};

}  // namespace ringmaster::agent
