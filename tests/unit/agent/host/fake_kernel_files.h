#pragma once

// Fake kernel files about memory: /proc files and a tree of control groups that a test fills. The
// destructor removes them.

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
